// SPDX-License-Identifier: Apache-2.0
// Loss and metrics of `clipped_pg`, plainly from docs/objectives.md ("Policy losses", "clipped_pg")
// and from NeMo-RL's `ClippedPGLossFn`.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "plain_policy.h"
#include "plain_selection.h"
#include "plain_weights.h"

namespace lossgrid::plain {

struct PolicyLoss {
  double loss = 0;
  Numbers metrics;
};

/// Returns r = reference - x clamped, and its KL by an estimator.
inline double kl_estimate(const std::string& type, double r) {
  if (type == "k1") return -r;
  if (type == "k2") return r * r / 2;
  if (type == "abs") return std::abs(r);
  return std::exp(r) - 1 - r;
}

/// Returns the KL of a token whose policy has drawn it by x, by the previous policy p.
inline double kl_of_token(const Case& of, const Token& token, double p, double live, double held) {
  const Options& options = of.options;
  const std::string type = options.name("reference_policy_kl_type", "k3");
  const std::string gradient = options.name("kl_gradient", "score");
  const double most_in = options.maybe("kl_input_clamp_value", 20.0).value_or(kInf);
  const double most_out = options.maybe("kl_output_clamp_value", 10.0).value_or(kInf);
  const double r = token.reference - held;
  const bool is_clamped = std::abs(r) > most_in;
  const double x = is_clamped ? held : live;  // then all of it is constant
  const double estimate = kl_estimate(type, std::clamp(token.reference - x, -most_in, most_in));
  const double fixed = kl_estimate(type, std::clamp(r, -most_in, most_in));
  const auto bounded_kl = [&](double kl) { return std::clamp(kl, -most_out, most_out); };
  if (gradient == "value") return bounded_kl(estimate);
  if (gradient == "ratio") return bounded_kl(estimate * std::exp(x - p));
  if (gradient == "score") {
    const bool by_generation = options.flag("use_on_policy_kl_approximation");
    const double weight = std::exp(x - (by_generation ? token.generation : held));
    return weight <= kMostFloat ? bounded_kl(estimate * weight) : 0;  // 0 if not finite in float32
  }
  // The value of the estimator and the gradient of k2 beyond the clamps too, by the ratio for
  // `importance`.
  const double factor = gradient == "importance" ? std::min(std::exp(held - p), 10.0) : 1;
  return bounded_kl(fixed) + factor * (std::pow(token.reference - live, 2) - r * r) / 2;
}

/// Returns the clip range of a ratio.
inline std::pair<double, double> clip_range(const Options& options) {
  const double low = options.number("ratio_clip_min", 0.2);
  const double high = options.number("ratio_clip_max", 0.2);
  const std::string bounds = options.name("cispo_bounds", "offset");
  if (options.flag("use_cispo") && bounds == "upper") return {-kInf, high};
  if (options.flag("use_cispo") && bounds == "absolute") return {low, high};
  return {1 - low, 1 + high};
}

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

/// Adds mean and ends of the ratios, and of the clipped ones.
inline void add_ratios(const Case& of, const ByToken& rho, Numbers& metrics) {
  const auto [least, largest] = clip_range(of.options);
  metrics["probs_ratio"] = token_mean(of, [&](std::size_t k) { return rho[k]; });
  ByToken clipped = rho;
  for (double& one : clipped) one = std::clamp(one, least, largest);
  metrics["probs_ratio_clamped"] = token_mean(of, [&](std::size_t k) { return clipped[k]; });
  metrics["probs_ratio_min"] = *std::min_element(rho.begin(), rho.end());
  metrics["probs_ratio_max"] = *std::max_element(rho.begin(), rho.end());
  metrics["probs_ratio_clamped_min"] = *std::min_element(clipped.begin(), clipped.end());
  metrics["probs_ratio_clamped_max"] = *std::max_element(clipped.begin(), clipped.end());
}

/// Adds the distances between the policies.
inline void add_distances(const Case& of, const ByToken& p, const Rows& held, Numbers& metrics) {
  const Options& options = of.options;
  const std::string type = options.name("reference_policy_kl_type", "k3");
  const auto q = [&](std::size_t k) { return of.tokens[k].generation; };
  // A token that lacks q has no distance to a policy.
  const auto distance_mean = [&](const auto& term) {
    return token_mean(of, [&](std::size_t k) { return of.tokens[k].lacks() ? 0.0 : term(k); });
  };
  metrics["token_mult_prob_error"] =
      distance_mean([&](std::size_t k) { return std::exp(std::abs(q(k) - p[k])); });
  metrics["gen_kl_error"] =
      distance_mean([&](std::size_t k) { return kl_estimate(type, p[k] - q(k)); });
  metrics["policy_kl_error"] =
      distance_mean([&](std::size_t k) { return kl_estimate(type, q(k) - p[k]); });
  metrics["js_divergence_error"] = distance_mean([&](std::size_t k) {
    const double u = std::log(0.5 * std::exp(p[k]) + 0.5 * std::exp(q(k)));
    return 0.5 * kl_estimate("k3", p[k] - u) + 0.5 * kl_estimate("k3", q(k) - u);
  });
  metrics["approx_entropy"] =
      distance_mean([&](std::size_t k) { return -std::exp(held[k].x - q(k)) * held[k].x; });
}

inline PolicyLoss clipped_pg_loss(const Case& of, const std::vector<std::int64_t>& packs,
                                  std::int64_t pack_count, const Rows& live, const Rows& held) {
  const Options& options = of.options;
  const std::string kind = options.name("policy_loss", "ppo");
  const ByToken p = previous_policy(of, held);
  const ByToken rho = ratios(of, p, live, held);
  const auto [least, largest] = clip_range(options);
  std::vector<bool> is_clipped;
  for (std::size_t k = 0; k < rho.size(); ++k) {
    const double a = of.tokens[k].advantage;
    is_clipped.push_back(-a * std::clamp(rho[k], least, largest) > -a * rho[k]);
  }
  const Weights weights = weights_of(of, p, held);
  const std::vector<bool> selected = selected_tokens(of, p, held, is_clipped);
  const ByToken losses = policy_losses(of, p, rho, live, held);
  const ByToken share = token_weights(of, packs, pack_count);
  const double beta =
      options.flag("use_kl_in_reward") ? 0 : options.number("reference_policy_kl_penalty", 0.01);
  const bool has_positive = options.number("positive_example_nll_weight", 0) > 0;
  PolicyLoss out;
  double policy = 0;
  double kl = 0;
  double entropy = 0;
  double positive = 0;
  double positive_tokens = 0;
  for (std::size_t k = 0; k < rho.size(); ++k) {
    const Token& token = of.tokens[k];
    double loss = losses[k];
    if (kind == "kl_cov" && selected[k]) {
      loss += options.number("ppo_kl_coef", 0.1) * std::abs(live[k].x - p[k]);
    }
    const bool drops = kind != "kl_cov" && selected[k];
    policy += share[k] * weights.weight[k] * (drops ? 0 : weights.keep[k]) * loss;
    if (beta != 0) kl += share[k] * kl_of_token(of, token, p[k], live[k].x, held[k].x);
    entropy += share[k] * live[k].entropy;
    if (has_positive && of.reward(token.sequence) > 0) {
      positive -= live[k].x;
      positive_tokens += 1;
    }
  }
  positive = positive_tokens > 0 ? positive / positive_tokens : 0;
  out.loss = policy + beta * kl - options.number("entropy_coefficient", 0) * entropy +
             options.number("positive_example_nll_weight", 0) * positive;

  Numbers& metrics = out.metrics;
  metrics["kl_penalty"] = kl;
  metrics["sampling_importance_ratio"] = weights.mean_weight;
  if (weights.share_out_of_bounds) metrics["is_oob_ratio"] = weights.share_out_of_bounds;
  metrics["positive_nll_loss"] =
      has_positive && positive_tokens == 0 ? std::nullopt : std::optional(positive);
  if (options.number("entropy_coefficient", 0) != 0) metrics["entropy"] = entropy;
  const bool rejects = options.name("rollout_rs", "null") != "null" ||
                       options.maybe("veto_ratio_min", std::nullopt) ||
                       options.maybe("veto_ratio_max", std::nullopt) ||
                       options.maybe("off_policy_mask_threshold", std::nullopt);
  if (rejects) {
    metrics["rollout_rs_masked_fraction"] =
        token_mean(of, [&](std::size_t k) { return 1 - weights.keep[k]; });
  }
  const bool selects = kind == "clip_cov" || kind == "kl_cov" ||
                       options.number("top_entropy_quantile", 1) < 1 ||
                       options.maybe("m2_threshold", std::nullopt);
  if (selects) {
    metrics["selected_fraction"] =
        token_mean(of, [&](std::size_t k) { return selected[k] ? 1.0 : 0.0; });
  }
  if (kind == "ppo" && !options.flag("disable_ppo_ratio")) add_ratios(of, rho, metrics);
  add_distances(of, p, held, metrics);
  return out;
}

}  // namespace lossgrid::plain
