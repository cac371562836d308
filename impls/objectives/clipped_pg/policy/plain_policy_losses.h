// SPDX-License-Identifier: Apache-2.0
// The loss of a token of `clipped_pg` before its weights, plainly from docs/objectives.md ("Policy
// losses").
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "impls/objectives/clipped_pg/plain_sequences.h"
#include "impls/objectives/clipped_pg/ratio/plain_ratio.h"
#include "impls/objectives/plain/plain_case.h"
#include "impls/objectives/plain/plain_numbers.h"
#include "impls/objectives/plain/plain_objective.h"

namespace lossgrid::plain {

/// Returns true for a token that DPPO drops: it has moved from the policy `from` too far.
inline bool dppo_drops(const Options& options, bool by_kl, double advantage, double x,
                       double from) {
  const double low = options.number("ratio_clip_min", 0.2);
  const double high = options.number("ratio_clip_max", 0.2);
  const double px = std::exp(x);
  const double pf = std::exp(from);
  if (!by_kl) return advantage > 0 ? px - pf > high : px - pf < -low;
  const double kl = pf * (from - x) + (1 - pf) * std::log((1 - pf + 1e-8) / (1 - px + 1e-8));
  return advantage > 0 ? x > from && kl > high : x < from && kl > low;
}

/// Returns the loss of each token before weights.
inline ByToken policy_losses(const Case& of, const ByToken& p, const ByToken& rho, const Rows& live,
                             const Rows& held) {
  const Options& options = of.options;
  const std::string kind = options.name("policy_loss", "ppo");
  const double low = options.number("ratio_clip_min", 0.2);
  const double high = options.number("ratio_clip_max", 0.2);
  const auto c = options.maybe("ratio_clip_c", std::nullopt);
  const auto [least, largest] = clip_range(options);
  const ByToken rho_held = ratios(of, p, held, held);
  const auto distance = [&](const Rows& rows, std::size_t k) {
    return bounded(options, rows[k].x - p[k]);
  };
  if (kind == "geo_mean") {
    const ByToken mean =
        sequence_means(of, by_token(of, [&](std::size_t k) {
                         const double a = of.tokens[k].advantage;
                         const double d = distance(live, k);
                         return a > 0 ? std::min(d, high) : a < 0 ? std::max(d, -low) : 0.0;
                       }));
    const ByToken advantage =
        sequence_means(of, by_token(of, [&](std::size_t k) { return of.tokens[k].advantage; }));
    return by_token(of, [&](std::size_t k) { return -advantage[k] * std::exp(mean[k]); });
  }
  const ByToken moved =
      sequence_sums(of, by_token(of, [&](std::size_t k) { return distance(held, k); }));
  return by_token(of, [&](std::size_t k) {
    const double a = of.tokens[k].advantage;
    const double x = live[k].x;
    const double q = of.tokens[k].generation;
    const bool is_forced = options.flag("force_on_policy_ratio");  // before the next, as in NeMo-RL
    if (is_forced && kind == "ppo") return -a * rho[k];
    if (options.flag("disable_ppo_ratio")) return -a * x;
    if (options.flag("use_cispo")) return -a * std::clamp(rho_held[k], least, largest) * x;
    if (kind == "sapo") {
      const double tau = a > 0 ? options.number("tau_pos", 1) : options.number("tau_neg", 1.05);
      return -a * 4 / tau / (1 + std::exp(-tau * (rho[k] - 1)));
    }
    if (kind == "dro") {
      return -a * x + options.number("dro_beta", 0) / 2 * std::pow(x - p[k], 2);
    }
    if (kind == "dppo_tv" || kind == "dppo_kl") {
      if (dppo_drops(options, kind == "dppo_kl", a, held[k].x, p[k])) return 0.0;
      return -a * std::min(std::exp(distance(held, k)), c.value_or(kInf)) * x;
    }
    if (kind == "dppo_binary_tv" || kind == "dppo_binary_kl") {
      if (dppo_drops(options, kind == "dppo_binary_kl", a, held[k].x, q)) return 0.0;
      return -a * std::exp(bounded(options, x - q));
    }
    if (kind == "vespo") {
      const double s = std::clamp(moved[k], std::log(1e-8), 20.0);
      const double power =
          a >= 0 ? options.number("vespo_k_pos", 2) : options.number("vespo_k_neg", 3);
      const double lambda =
          a >= 0 ? options.number("vespo_lambda_pos", 3) : options.number("vespo_lambda_neg", 2);
      return -a * std::exp(lambda + power * s - lambda * std::exp(s)) * x;
    }
    if (kind == "kl_cov") return -a * std::exp(distance(live, k));
    const double clipped = std::max(-a * rho[k], -a * std::clamp(rho[k], least, largest));
    return a < 0 && c ? std::min(clipped, -a * *c) : clipped;
  });
}

inline std::vector<OptionCase> policy_loss_cases() {
  return {{"policy_loss=sapo tau_pos=2 tau_neg=0.5"},
          {"policy_loss=geo_mean token_level_loss=false ratio_clip_min=0.05 "
           "ratio_clip_max=0.03"},
          {"policy_loss=dro dro_beta=0.7|0.2"},
          {"policy_loss=dppo_tv ratio_clip_min=0.02 ratio_clip_max=0.01 ratio_clip_c=1.05"},
          {"policy_loss=dppo_kl ratio_clip_min=0.001 ratio_clip_max=0.002 ratio_clip_c=1.05"},
          {"policy_loss=dppo_binary_tv ratio_clip_min=0.02 ratio_clip_max=0.01"},
          {"policy_loss=dppo_binary_kl ratio_clip_min=0.001 ratio_clip_max=0.002"},
          {"policy_loss=vespo vespo_k_pos=0.5 vespo_lambda_pos=0.4 vespo_k_neg=0.3 "
           "vespo_lambda_neg=0.6"},
          {"entropy_coefficient=0.3 positive_example_nll_weight=0.4",
           "temperature=0.7 sequence_temperatures=true"}};
}

}  // namespace lossgrid::plain
