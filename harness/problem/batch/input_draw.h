// SPDX-License-Identifier: Apache-2.0
// `InputDraw`: the numbers that an objective draws as its inputs for a case, one token and one
// sequence at a time, from the seed and from what the token's row has.
#pragma once

#include <array>
#include <cstdint>

#include "harness/problem/batch/token_inputs.h"
#include "harness/problem/case/case_spec.h"

namespace lossgrid {

/// The token that inputs are drawn for.
struct TokenToDraw {
  const CaseSpec& spec;
  std::int64_t token = 0;
  std::int64_t sequence = 0;
  double number = 0;  // log p of the token, at most 0, or the value of a head without a vocabulary
};

/// Inputs of one token.
struct DrawnInputs {
  std::array<double, kTokenInputs> values{};  // by TokenInput

  double& operator[](TokenInput input) { return values[static_cast<std::size_t>(input)]; }
  double operator[](TokenInput input) const { return values[static_cast<std::size_t>(input)]; }
};

class InputDraw {
 public:
  virtual ~InputDraw() = default;

  /// Draws the inputs of a token. Those that the objective does not need are not read.
  virtual DrawnInputs inputs(const TokenToDraw& token) const = 0;

  /// Draws the reward of a sequence; 0 for an objective without rewards.
  virtual double reward(const CaseSpec& /*spec*/, std::int64_t /*sequence*/) const { return 0; }
};

}  // namespace lossgrid
