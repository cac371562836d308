// SPDX-License-Identifier: Apache-2.0
// `on_policy_distill`, plainly from docs/objectives.md.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "impls/objectives/plain/plain_case.h"
#include "impls/objectives/plain/plain_numbers.h"
#include "impls/objectives/plain/plain_objective.h"

namespace lossgrid::plain {
namespace {

LossAndMetrics on_policy_distill_loss(const Case& of, const Rows& live, const Rows& held) {
  const std::string mode = of.options.name("loss_mode", "k3");
  const std::optional<double> most = of.options.maybe("loss_max_clamp", 10.0);
  const std::optional<double> loss = token_mean(of, [&](std::size_t k) {
    const double d = live[k].x - of.tokens[k].teacher;
    const double fixed = held[k].x - of.tokens[k].teacher;
    if (mode == "score") return (most ? std::clamp(fixed, -*most, *most) : fixed) * live[k].x;
    const double loss = mode == "abs"  ? std::abs(d)
                        : mode == "k2" ? d * d / 2
                                       : std::exp(-d) - 1 + d;
    return most ? std::min(loss, *most) : loss;
  });
  return {*loss};
}

std::vector<OptionCase> on_policy_distill_cases() {
  return {{"loss_mode=abs"},
          {"loss_mode=k2 loss_max_clamp=0.1"},
          {"loss_mode=k3|k2 loss_max_clamp=0.1"},
          {"loss_mode=score loss_max_clamp=0.3", "drift=far"},
          {"loss_mode=k2 loss_max_clamp=null", "drift=far"}};
}

const RegisteredPlainObjective plain_on_policy_distill{
    {"on_policy_distill", kBatch, on_policy_distill_loss, on_policy_distill_cases()}};

}  // namespace
}  // namespace lossgrid::plain
