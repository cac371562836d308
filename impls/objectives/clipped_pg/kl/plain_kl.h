// SPDX-License-Identifier: Apache-2.0
// The KL to the reference policy and the distances between policies of `clipped_pg`, plainly from
// docs/objectives.md and from NeMo-RL's `ClippedPGLossFn`.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "impls/objectives/clipped_pg/plain_sequences.h"
#include "impls/objectives/plain/plain_case.h"
#include "impls/objectives/plain/plain_numbers.h"
#include "impls/objectives/plain/plain_objective.h"

namespace lossgrid::plain {

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

inline std::vector<OptionCase> kl_cases() {
  return {
      {"reference_policy_kl_penalty=0.5 reference_policy_kl_type=k1"},
      {"reference_policy_kl_penalty=0.5 reference_policy_kl_type=k2"},
      {"reference_policy_kl_penalty=0.5 reference_policy_kl_type=abs"},
      {"reference_policy_kl_penalty=0.5 kl_input_clamp_value=0.2 token_level_loss=false"},
      {"reference_policy_kl_penalty=0.5 kl_output_clamp_value=0.02 reference_policy_kl_type=k2"},
      {"reference_policy_kl_type=k1 kl_input_clamp_value=null kl_output_clamp_value=null",
       "lens=30+40 vocab=3 drift=far"},
      {"use_kl_in_reward=true"},
      {"reference_policy_kl_penalty=0.5 use_on_policy_kl_approximation=true"},
      {"reference_policy_kl_penalty=0.5 kl_gradient=value"},
      {"reference_policy_kl_penalty=0.5 kl_gradient=straight-through reference_policy_kl_type=k1"},
      {"reference_policy_kl_penalty=0.5 kl_gradient=importance"},
      {"reference_policy_kl_penalty=0.5 kl_gradient=ratio reference_policy_kl_type=k2"}};
}

}  // namespace lossgrid::plain
