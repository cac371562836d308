// SPDX-License-Identifier: Apache-2.0
// Inputs of objectives beside log-probabilities. Plain data only: nvcc compiles this header.
#pragma once

#include <cstdint>
#include <string_view>

namespace lossgrid {

/// Exact denominators of the *global* batch (all dp, cp and microbatches).
struct Denominators {
  std::int64_t valid_tokens = 0;     // targets with token mask and sample mask
  std::int64_t valid_sequences = 0;  // sum of the sample mask
  std::int64_t positive_tokens = 0;  // valid tokens of sequences with a reward above 0
  // Counted for objectives that need them (ObjectiveNeeds::sequence_counts), else 0:
  std::int64_t trained_sequences = 0;  // sequences with a valid token
  std::int64_t all_sequences = 0;      // all of them, those that count for nothing too
  // Counted where ObjectiveNeeds::has_groups, else 0:
  std::int64_t trained_groups = 0;  // groups of sequences with a valid token
  std::int64_t all_groups = 0;      // all of them
  friend bool operator==(const Denominators&, const Denominators&) = default;
};

/// Inputs about a token, float32. Log-probabilities are those of the policy named here.
enum class TokenInput {
  advantages,
  prev_logprobs,              // policy that the ratio is taken to
  generation_logprobs,        // policy that sampled
  reference_policy_logprobs,  // policy that the KL penalty or DPO compares with
  teacher_logprobs,           // policy that is distilled
  returns,                    // of the state before the token, which a value head learns
  old_values,                 // of that state, by the value head before the step
  versions,                   // number of the policy that sampled, a whole one; below 0: none
};
inline constexpr int kTokenInputs = 8;

/// True if a bundle holds the input as I32.
constexpr bool is_whole_number(TokenInput input) {
  return input == TokenInput::versions;
}

/// Returns the name in bundles and messages: "advantages", ...
std::string_view name(TokenInput input);

}  // namespace lossgrid
