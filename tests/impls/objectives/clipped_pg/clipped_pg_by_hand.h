// SPDX-License-Identifier: Apache-2.0
// Examples of `clipped_pg` that are small enough to compute by hand.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "clipped_pg_cases.h"
#include "objective_batch.h"

namespace lossgrid {

/// One token: its advantage and how far policies are from the current one at log-probability -2.
struct TinyToken {
  double advantage;
  double x_minus_prev = 0;
  double prev_minus_generation = 0;
  double reference_minus_x = 0;
};

inline ObjectiveBatch tiny(const std::vector<std::vector<TinyToken>>& sequences) {
  return batch_by_hand(
      sequences, [](const TinyToken& token, ObjectiveBatch& data, std::int64_t slot) {
        data.logprobs[slot - 1] = -2;
        set_input(data, TokenInput::advantages, slot, token.advantage);
        set_input(data, TokenInput::prev_logprobs, slot, -2 - token.x_minus_prev);
        set_input(data, TokenInput::generation_logprobs, slot,
                  -2 - token.x_minus_prev - token.prev_minus_generation);
        set_input(data, TokenInput::reference_policy_logprobs, slot, -2 + token.reference_minus_x);
      });
}

/// Loss and gradient of the rows with a target, in both the steps and the truth.
inline void expect_by_hand(const Options& options, const ObjectiveBatch& data, double loss,
                           const std::vector<double>& gradient,
                           const std::map<std::string, double>& metrics = {}) {
  const auto objective = make_clipped_pg(options);
  const ObjectiveRun run = run_objective(*objective, data);
  const ObjectiveTruth truth = objective_truth(*objective, data);
  EXPECT_NEAR(run.loss, loss, 1e-6) << shown(options);
  EXPECT_NEAR(truth.loss.value, loss, 1e-6) << shown(options);
  std::size_t next = 0;
  for (std::size_t row = 0; row < run.gradient.size(); ++row) {
    if (std::isnan(data.logprobs[row])) continue;
    EXPECT_NEAR(run.gradient[row], gradient.at(next), 1e-6) << shown(options) << "row " << row;
    EXPECT_NEAR(truth.grad_logprob[row].value, gradient.at(next), 1e-6) << shown(options);
    ++next;
  }
  for (const auto& [name, value] : metrics) {
    EXPECT_NEAR(run.metrics.at(name).value().value(), value, 1e-6) << name;
    EXPECT_NEAR(truth.metrics.at(name).value().value().value, value, 1e-6) << name;
  }
}

}  // namespace lossgrid
