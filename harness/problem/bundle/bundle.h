// SPDX-License-Identifier: Apache-2.0
// Bundles: one unsharded packed batch in a safetensors file, read into a Problem and back. Every
// rule of the format is checked before anything else happens. See the format in README.md.
// Alignment: element t of every per-token array, in and out, belongs to token t.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/problem/batch/problem.h"

namespace lossgrid {

/// Results in the unsharded layout; with the prefix `expected.` in a bundle, without it in --out
/// files. Results that an implementation does not return are empty.
struct BundleResults {
  std::optional<double> loss;
  std::vector<double> logprobs;  // [T], 0 at first tokens
  std::vector<double>
      entropy;  // [T] entropy of the row that predicts the token, in nats; 0 at first tokens
  std::vector<double> grad_logits;  // [T, V]; optional in a bundle with hidden states
  std::vector<double> grad_hidden;  // [T, H], empty unless the bundle has hidden states
  std::vector<double> grad_weight;  // [V, H], empty unless the bundle has hidden states
  std::vector<double> grad_bias;    // [V], empty unless the bundle has a bias
  std::map<std::string, double> metrics;
};

/// Content of one file.
struct Bundle {
  Problem problem;
  std::optional<BundleResults> expected;
  // Number of NaN and +inf among the logits (in float32): allowed in rows without a trained token,
  // but worth a warning.
  std::int64_t nan_or_inf_logits = 0;
};

/// Reads and checks a bundle. Throws bad_input with one line that names the file, the tensor, the
/// index and the rule. Inputs of objectives are kept, even if the bundle's objective does not need
/// them (see require_objective_inputs). Hidden states, weight and bias become a projection, in bf16
/// if all three are bf16, else in f32. `expected.*` must be complete or absent, except for
/// `expected.entropy`, which is optional.
Bundle read_bundle(const std::string& path);

/// Writes `problem` and, if given, expected results. Logits are written in the problem's dtype,
/// unpoisoned, or as the hidden states, weight and bias that make them, with the gradients of those
/// tensors. Inputs that are not finite in rows without a trained token (poison) are written as 0.
/// The weight is [V, H] for every layout of shards. `case_text` is the text form of the case behind
/// the problem, for other programs; empty without a case. Throws io; bad_input for a problem that
/// the format cannot express (a tied embedding); internal if a gradient does not have the size of
/// its tensor.
void write_bundle(const std::string& path, const Problem& problem,
                  const std::optional<BundleResults>& expected, const std::string& case_text = "");

/// Writes results only (`--out`), for a batch of `tokens` tokens. Metrics that are not finite are
/// null. Empty results are left out, as are all gradients of a batch without tokens. Throws io.
void write_results(const std::string& path, std::int64_t tokens, const BundleResults& results);

}  // namespace lossgrid
