// SPDX-License-Identifier: Apache-2.0
// Cases with drawn inputs of objectives, by a plain draw unless another one is given, and
// statistics of these inputs.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "harness/problem/batch/draw.h"
#include "harness/problem/batch/objective_inputs.h"
#include "problem_of.h"
#include "statistics.h"

namespace lossgrid {

inline constexpr ObjectiveNeeds kEverything{
    .inputs = {true, true, true, true, true, true, true, true}, .rewards = true};

/// Draws normal advantages and rewards, and log-probabilities and values below the token's number.
class PlainDraw final : public InputDraw {
 public:
  /// `lacks`: generation_logprobs of every eighth token are NaN.
  explicit PlainDraw(bool lacks = false) : lacks_(lacks) {}

  DrawnInputs inputs(const TokenToDraw& token) const override {
    DrawnInputs inputs;
    for (int k = 0; k < kTokenInputs; ++k) {
      const std::int64_t index = kTokenInputs * token.token + k;
      const double normal = Draw(token.spec.seed, Stream::advantages, index).normal();
      inputs.values[k] = token.number - std::abs(normal);
      if (static_cast<TokenInput>(k) == TokenInput::advantages) inputs.values[k] = normal;
      if (is_whole_number(static_cast<TokenInput>(k))) inputs.values[k] = std::round(normal);
    }
    const Draw lack(token.spec.seed, Stream::lacking_logprobs, token.token);
    if (lacks_ && lack.uniform(0) < 0.125) {
      inputs[TokenInput::generation_logprobs] = std::nan("");
    }
    return inputs;
  }

  double reward(const CaseSpec& spec, std::int64_t sequence) const override {
    return Draw(spec.seed, Stream::rewards, sequence).normal();
  }

 private:
  bool lacks_;
};

inline Problem drawn(const std::string& text, const std::vector<double>& logprobs,
                     const ObjectiveNeeds& needs = kEverything,
                     const InputDraw& draw = PlainDraw()) {
  Problem problem = problem_of(text);
  draw_objective_inputs(problem, needs, &draw, logprobs);
  return problem;
}

/// Every token with the same log-probability.
inline Problem drawn(const std::string& text, double logprob) {
  return drawn(text,
               std::vector<double>(static_cast<std::size_t>(problem_of(text).tokens()), logprob));
}

inline const std::vector<float>& input(const Problem& problem, TokenInput which) {
  return problem.inputs[static_cast<std::size_t>(which)];
}

/// f(token) of all tokens but the first of each sequence.
template <typename F>
std::vector<double> of_targets(const Problem& problem, F&& f) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < problem.sequences(); ++i) {
    for (std::int64_t t = problem.cu_seqlens[i] + 1; t < problem.cu_seqlens[i + 1]; ++t) {
      out.push_back(f(static_cast<std::size_t>(t)));
    }
  }
  return out;
}

inline double share(const std::vector<double>& values, double low, double high) {
  return static_cast<double>(std::count_if(values.begin(), values.end(),
                                           [=](double x) { return x >= low && x <= high; })) /
         static_cast<double>(values.size());
}

}  // namespace lossgrid
