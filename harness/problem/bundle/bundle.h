// SPDX-License-Identifier: Apache-2.0
// Bundles: one unsharded packed batch in a safetensors file, read into a Problem and back. Every
// rule of the format is checked before anything else happens. See the format in README.md.
// Alignment: every per-token array, in and out, is indexed by the token it is about.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/problem/batch/problem.h"

namespace lossgrid {

/// Results in the unsharded layout; in a bundle prefixed `expected.`, in --out files bare. Results
/// that an implementation does not give are empty.
struct BundleResults {
  std::optional<double> loss;
  std::vector<double> logprobs;  // [T], 0 at first tokens
  std::vector<double>
      entropy;  // [T] entropy of the row that predicts the token, in nats; 0 likewise
  std::vector<double> grad_logits;  // [T, V]; optional in a bundle with hidden states
  std::vector<double> grad_hidden;  // [T, H], empty unless the bundle has hidden states
  std::vector<double> grad_weight;  // [V, H], likewise
  std::vector<double> grad_bias;    // [V], empty unless the bundle has a bias
  std::map<std::string, double> metrics;
};

/// Content of one file.
struct Bundle {
  Problem problem;
  std::optional<BundleResults> expected;
  // Number of NaN and +inf among the logits (in float32): allowed in rows that nothing trains on,
  // but worth a warning.
  std::int64_t nan_or_inf_logits = 0;
};

/// Reads and checks a bundle. Throws bad_input with one line that names the file, the tensor, the
/// index and the rule. Inputs of objectives are kept, also those that this one does not need (see
/// require_objective_inputs). Hidden states, weight and bias become a projection, in bf16 when all
/// are, else in f32. `expected.*` is all or nothing, except for `expected.entropy`, which is
/// optional.
Bundle read_bundle(const std::string& path);

/// Writes `problem` and, when given, expected results: its logits in its dtype, unpoisoned, or the
/// hidden states, weight and bias that they come from, then with the gradients of these. Inputs
/// that are not finite where nothing trains on them (poison) are written as 0. The weight is [V, H]
/// for every layout of shards. `case_text` is the text form of the case that the problem was made
/// from, for other programs; empty if there is none. Throws io; bad_input for a problem that the
/// format cannot express (a tied embedding); internal when a gradient does not have the size of its
/// tensor.
void write_bundle(const std::string& path, const Problem& problem,
                  const std::optional<BundleResults>& expected, const std::string& case_text = "");

/// Writes results only (`--out`), of a batch of `tokens` tokens. Metrics that are not finite are
/// null. Empty results are left out, and so are all gradients of a batch without tokens. Throws io.
void write_results(const std::string& path, std::int64_t tokens, const BundleResults& results);

}  // namespace lossgrid
