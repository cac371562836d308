// SPDX-License-Identifier: Apache-2.0
// `value`, plainly from docs/objectives.md.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "impls/objectives/clipped_pg/aggregation/plain_aggregation.h"
#include "impls/objectives/plain/plain_case.h"
#include "impls/objectives/plain/plain_numbers.h"
#include "impls/objectives/plain/plain_objective.h"

namespace lossgrid::plain {
namespace {

double value_loss(const Case& of, const Rows& live) {
  const bool huber = of.options.name("loss_type", "mse") == "huber";
  const double delta = of.options.number("huber_delta", 10);
  const std::optional<double> range = of.options.maybe("cliprange_value", std::nullopt);
  const auto loss_of = [&](double d) {
    return huber && std::abs(d) > delta ? delta * (std::abs(d) - delta / 2) : d * d / 2;
  };
  return of.options.number("scale", 1) *
         weighted(token_weights(of), by_token(of, [&](std::size_t k) {
                    const Token& token = of.tokens[k];
                    const double alone = loss_of(live[k].value - token.returns);
                    if (!range) return alone;
                    const double near = std::clamp(live[k].value, token.old_value - *range,
                                                   token.old_value + *range);
                    return std::max(alone, loss_of(near - token.returns));
                  }));
}

Numbers value_metrics(const Case& of, const Rows& rows) {
  Numbers out;
  const auto value = [&](std::size_t k) { return rows[k].value; };
  const auto returns = [&](std::size_t k) { return of.tokens[k].returns; };
  const auto square = [](double x) { return x * x; };
  const std::optional<double> range = of.options.maybe("cliprange_value", std::nullopt);
  out["returns_mean"] = token_mean(of, returns);
  out["returns_sq_mean"] = token_mean(of, [&](std::size_t k) { return square(returns(k)); });
  out["residual_sq_mean"] =
      token_mean(of, [&](std::size_t k) { return square(returns(k) - value(k)); });
  out["values_mean"] = token_mean(of, value);
  out["vf_clipfrac"] = token_mean(of, [&](std::size_t k) {
    if (!range) return 0.0;
    const double near =
        std::clamp(value(k), of.tokens[k].old_value - *range, of.tokens[k].old_value + *range);
    return std::abs(near - returns(k)) > std::abs(value(k) - returns(k)) ? 1.0 : 0.0;
  });
  const std::vector<double> values = by_token(of, value);
  out["values_min"] = *std::min_element(values.begin(), values.end());
  out["values_max"] = *std::max_element(values.begin(), values.end());
  const auto variance = [&](const auto& number) {
    const double mean = *token_mean(of, number);
    return *token_mean(of, [&](std::size_t k) { return square(number(k) - mean); });
  };
  out["explained_variance"] =
      1 - variance([&](std::size_t k) { return returns(k) - value(k); }) / variance(returns);
  return out;
}

LossAndMetrics judge_values(const Case& of, const Rows& live, const Rows& /*held*/) {
  return {value_loss(of, live), value_metrics(of, live)};
}

std::vector<OptionCase> value_cases() {
  return {{"scale=0.4"},
          {"cliprange_value=0.3 scale=2", "temperature=1.3"},
          {"loss_type=huber huber_delta=0.4 cliprange_value=0.6", "logit_scale=0.7"},
          {"loss_agg_mode=token-sum"},
          {"loss_agg_mode=seq-mean-token-mean"},
          {"loss_agg_mode=seq-mean-token-sum cliprange_value=0.2"},
          {"loss_agg_mode=seq-mean-token-sum-norm|seq-mean-token-sum loss_scale_factor=3"}};
}

const RegisteredPlainObjective plain_value{
    {"value", "head=value lens=6+4+7+1+0+5 sample_mask=110111 mask=ragged", judge_values,
     value_cases()}};

}  // namespace
}  // namespace lossgrid::plain
