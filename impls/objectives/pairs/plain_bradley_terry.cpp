// SPDX-License-Identifier: Apache-2.0
// `bradley_terry`, plainly from docs/objectives.md ("Objectives of pairs") and TRL.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "impls/objectives/pairs/plain_pairs.h"
#include "impls/objectives/plain/plain_case.h"
#include "impls/objectives/plain/plain_numbers.h"
#include "impls/objectives/plain/plain_objective.h"

namespace lossgrid::plain {
namespace {

LossAndMetrics bradley_terry_loss(const Case& of, const Rows& live, const Rows& /*held*/) {
  const double k = of.options.maybe("center_rewards_coefficient", std::nullopt).value_or(0);
  const auto score = [&](std::int64_t i) {
    return over_sequence(of, i, [&](std::size_t at, int) { return live[at].value; });
  };
  LossAndMetrics out;
  std::vector<std::pair<double, double>> pairs;
  for (const std::int64_t i : counted_pairs(of)) {
    if (of.trained[i] == 0 || of.trained[i + 1] == 0) continue;
    const double margin = of.options.flag("margin") ? of.reward(i) - of.reward(i + 1) : 0;
    pairs.emplace_back(score(i), score(i + 1));
    const auto& [c, r] = pairs.back();
    out.loss += -log_sigmoid(c - r - margin) + k * (c + r) * (c + r);
  }
  const auto count = static_cast<double>(pairs.size());
  out.loss /= count;
  Numbers& metrics = out.metrics;
  for (const char* name :
       {"accuracy", "rewards_chosen_mean", "rewards_rejected_mean", "mean_reward"}) {
    metrics[name] = 0;
  }
  for (const auto& [c, r] : pairs) {
    *metrics["accuracy"] += (c > r ? 1 : 0) / count;
    *metrics["rewards_chosen_mean"] += c / count;
    *metrics["rewards_rejected_mean"] += r / count;
    *metrics["mean_reward"] += (c + r) / (2 * count);
    metrics["min_reward"] = std::min({metrics["min_reward"].value_or(c), c, r});
    metrics["max_reward"] = std::max({metrics["max_reward"].value_or(c), c, r});
  }
  return out;
}

std::vector<OptionCase> bradley_terry_cases() {
  return {{"margin=true"}, {"margin=true center_rewards_coefficient=0.2", "temperature=0.7"}};
}

const RegisteredPlainObjective plain_bradley_terry{
    {"bradley_terry", "head=score lens=6+4+5+7+0+5+3+3 sample_mask=11001111 mask=ragged",
     bradley_terry_loss, bradley_terry_cases()}};

}  // namespace
}  // namespace lossgrid::plain
