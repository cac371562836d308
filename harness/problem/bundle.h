// SPDX-License-Identifier: Apache-2.0
// Bundles: one unsharded packed batch in a safetensors file. See the format in README.md.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/problem/problem.h"

namespace lossgrid {

/// Results in the unsharded layout; in a bundle prefixed `expected.`, in --out files bare.
struct BundleResults {
  double loss = 0;
  std::vector<double> logprobs;     // [T], 0 at first tokens
  std::vector<double> grad_logits;  // [T, V]
  std::map<std::string, double> metrics;
};

struct Bundle {
  Problem problem;
  std::optional<BundleResults> expected;
};

/// Reads and checks a bundle. Throws bad_input with one line that names the tensor, the index and
/// the rule. `seed` makes pad ids where the layout needs them.
Bundle read_bundle(const std::string& path);

/// Writes `problem` (its logits in its dtype, unpoisoned) and, when given, expected results.
void write_bundle(const std::string& path, const Problem& problem,
                  const std::optional<BundleResults>& expected);

/// Writes results only (`--out`).
void write_results(const std::string& path, const BundleResults& results);

}  // namespace lossgrid
