// SPDX-License-Identifier: Apache-2.0
// `ExternalDeclaration`: the arguments of the Python decorator of an external implementation
// (python/PROTOCOL.md, DECLARATION), with every convention by name.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/loss/loss_implementation.h"
#include "harness/loss/train_step.h"
#include "harness/problem/case/scale_factor.h"

namespace lossgrid {

/// Longest chain of additions, unless declared. Fitted to PyTorch 2.15 on processors, which adds up
/// in lanes and then pairwise (fit_bounds with vocab_parallel, cp_gather, entropy and linear of
/// python/examples; all value regimes, vocabularies of 24 to 151936, tp of 1 to 4). With 0 the
/// largest ratios of error to bound in float32 are 0.11 for log-probabilities, 0.08 for entropies,
/// 0.27 for gradients and 0.39 for their bias; the number leaves room for additions in the lanes of
/// other kernels.
inline constexpr int kSerialAddsOfLanes = 32;

struct ExternalDeclaration {  // NOLINT(bugprone-exception-escape): JSON moves without throwing
  std::string name;
  std::string summary;
  std::string file;
  InputKind inputs = InputKind::logits;
  bool is_engine = false;
  bool returns_logprobs = true;  // false: returns nll
  bool returns_entropy = false;
  bool returns_loss = false;
  LogprobScope rows = LogprobScope::shard;
  bool gradient_summed_over_cp = false;  // the backward of its gather over CP sums the gradient
  ScaleFactor scale;                     // factor of its loss and its gradient
  bool pads_with_minus_inf = false;      // logits of columns beyond the vocabulary are -inf
  // Replicas or slices for an engine, by its `gradients`.
  WeightGradientParts weight_gradient = WeightGradientParts::summands;
  bool overwrites_logits = false;
  Padding padding;
  int serial_adds = kSerialAddsOfLanes;
  std::set<std::string, std::less<>> rounds;  // words of conventions.json
  std::set<std::string, std::less<>> takes;
  bool has_chunks =
      false;  // has a function that returns the number of chunks for the weight's gradient
  bool has_supports = false;
  bool has_cost = false;
  std::map<std::string, std::string> options;  // name -> "int", "float", "bool" or "str"
  // Allowed values of options with a fixed list of values, the default first.
  std::map<std::string, std::vector<nlohmann::json>> offers;
  std::map<std::string, std::string> details;  // details for the report: packages, stand-ins
  nlohmann::json change;  // change of a mutant (PROTOCOL.md, Mutants); else null

  /// True if `rounds` has the word. Throws internal for a word that `rounds` cannot have.
  bool rounds_to(std::string_view word) const;
  bool takes_also(std::string_view word) const;
};

/// Reads a declaration. Throws bad_input for a value that breaks the protocol.
ExternalDeclaration declaration_from(const nlohmann::json& json);

}  // namespace lossgrid
