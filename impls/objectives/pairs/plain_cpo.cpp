// SPDX-License-Identifier: Apache-2.0
// `cpo`, plainly from docs/objectives.md ("Objectives of pairs") and TRL.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "impls/objectives/pairs/plain_pairs.h"
#include "impls/objectives/plain/plain_case.h"
#include "impls/objectives/plain/plain_numbers.h"
#include "impls/objectives/plain/plain_objective.h"

namespace lossgrid::plain {
namespace {

LossAndMetrics cpo_loss(const Case& of, const Rows& live, const Rows& /*held*/) {
  const Options& options = of.options;
  const std::string type = options.name("loss_type", "sigmoid");
  const double beta = options.number("beta", 0.1);
  const double alpha = options.number("alpha", 0);
  const double e = options.number("label_smoothing", 0);
  const bool means = type == "simpo" || type == "ipo";
  const auto reward = [&](std::int64_t i) {
    const double x = -sft_of(of, live, i, means);
    return alpha > 0 ? (1 - std::exp(-alpha * x)) / alpha : x;
  };
  LossAndMetrics out;
  double preference = 0;
  double sft = 0;
  const double count = of.valid_sequences() / 2;
  for (const std::int64_t i : counted_pairs(of)) {
    const double difference = reward(i) - reward(i + 1);
    const double u = beta * difference - (type == "simpo" ? options.number("simpo_gamma", 0.5) : 0);
    const double loss = type == "hinge" ? std::max(0.0, 1 - u)
                        : type == "ipo" ? std::pow(difference - 1 / (2 * beta), 2)
                                        : smoothed(u, e);
    preference += loss / count;
    sft += sft_of(of, live, i, options.flag("sft_average_log_probs", true)) / count;
  }
  out.loss = preference + options.number("cpo_alpha", 1) * sft;
  out.metrics["preference_loss"] = preference;
  out.metrics["sft_loss"] = sft;
  return out;
}

std::vector<OptionCase> cpo_cases() {
  return {{"beta=0.4 cpo_alpha=0.3 sft_average_log_probs=false"},
          {"loss_type=simpo simpo_gamma=0.2 beta=0.7 label_smoothing=0.1"},
          {"loss_type=hinge beta=0.3 alpha=0.2"},
          {"loss_type=ipo beta=0.3 cpo_alpha=0.5"},
          {"loss_type=simpo alpha=0.3 beta=0.6", "sequence_temperatures=true"}};
}

const RegisteredPlainObjective plain_cpo{{"cpo", kBatchOfPairs, cpo_loss, cpo_cases()}};

}  // namespace
}  // namespace lossgrid::plain
