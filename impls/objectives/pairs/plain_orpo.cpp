// SPDX-License-Identifier: Apache-2.0
// `orpo`, plainly from docs/objectives.md ("Objectives of pairs") and TRL.
#include <cmath>
#include <cstdint>
#include <vector>

#include "impls/objectives/pairs/plain_pairs.h"
#include "impls/objectives/plain/plain_case.h"
#include "impls/objectives/plain/plain_numbers.h"
#include "impls/objectives/plain/plain_objective.h"

namespace lossgrid::plain {
namespace {

LossAndMetrics orpo_loss(const Case& of, const Rows& live, const Rows& /*held*/) {
  const Options& options = of.options;
  const auto log_odds = [&](std::int64_t i) {
    const double mean = -sft_of(of, live, i, true);
    return mean - std::log(1 - std::exp(mean));
  };
  LossAndMetrics out;
  double preference = 0;
  double sft = 0;
  const double count = of.valid_sequences() / 2;
  for (const std::int64_t i : counted_pairs(of)) {
    preference += -log_sigmoid(log_odds(i) - log_odds(i + 1)) / count;
    sft += sft_of(of, live, i, options.flag("sft_average_log_probs", true)) / count;
  }
  out.loss = options.number("beta", 0.1) * preference + sft;
  out.metrics["sft_loss"] = sft;
  return out;
}

std::vector<OptionCase> orpo_cases() {
  return {{"beta=0.6"}, {"beta=0.3 sft_average_log_probs=false", "temperature=0.8"}};
}

const RegisteredPlainObjective plain_orpo{{"orpo", kBatchOfPairs, orpo_loss, orpo_cases()}};

}  // namespace
}  // namespace lossgrid::plain
