// SPDX-License-Identifier: Apache-2.0
// Internal to the truth of `clipped_pg`: its metrics but for loss, KL and entropy.
#pragma once

#include <string>
#include <vector>

#include "impls/objectives/clipped_pg/clipped_pg_truth_part.h"
#include "impls/objectives/clipped_pg/kl/clipped_pg_truth_kl.h"
#include "impls/objectives/clipped_pg/rejection/clipped_pg_truth_rejection.h"

namespace lossgrid {

/// Returns (KL(p || u) + KL(q || u)) / 2, u = log((e^p + e^q) / 2) computed from the larger of
/// both.
inline Enclosure js_estimate(const Enclosure& p, const Enclosure& q) {
  const Enclosure u = max(p, q) + log(0.5 + 0.5 * exp(-abs(p - q)));
  return 0.5 * (kl_estimate(KlType::k3, p - u) + kl_estimate(KlType::k3, q - u));
}

class TrueMetrics : public TruthPart {
 public:
  explicit TrueMetrics(TruthState& state) : TruthPart(state) {}

  /// Returns the sum of the terms / denominator.
  void add_metric(const std::string& name, const std::vector<Enclosure>& terms,
                  std::int64_t denominator) {
    MetricTruth& metric = truth_.metrics[name];
    metric.count = denominator > 0 ? 1 : 0;
    if (denominator > 0) metric.amount = sum(terms) * reciprocal(denominator);
  }

  /// Adds mean, smallest and largest of the ratios.
  void add_ratio_metrics(const std::string& name, const ByToken<Var>& ratios) {
    std::vector<Enclosure> values;
    for (const Var& rho : flat(ratios)) values.push_back(rho.enclosure());
    add_metric(name, values, counts().valid_tokens);
    const auto count = static_cast<double>(values.size());
    MetricTruth least{Reduction::min, values.empty() ? 0.0 : values[0], count};
    MetricTruth largest{Reduction::max, least.amount, count};
    for (const Enclosure& value : values) {
      least.amount = min(least.amount, value);
      largest.amount = max(largest.amount, value);
    }
    truth_.metrics[name + "_min"] = least;
    truth_.metrics[name + "_max"] = largest;
  }

  /// Adds the mean importance weight, and the share that is out of bounds.
  void add_weight_metrics(const TrueWeights& weights) {
    const bool by_sequence = options_.weighs_sequences();
    const std::int64_t tokens = counts().valid_tokens;
    const std::int64_t sequences = counts().valid_sequences;
    add_metric("sampling_importance_ratio", by_sequence ? weights.sequences : flat(weights.tokens),
               by_sequence ? sequences : tokens);
    if (options_.truncated_importance_sampling_type == Truncation::none) return;
    const bool masks = options_.truncated_importance_sampling_type == Truncation::seq_mask_tis;
    add_metric("is_oob_ratio", weights.out_of_bounds, by_sequence || masks ? sequences : tokens);
  }

  /// Adds the share of tokens that are rejected.
  void add_rejection_metric(const TrueKeeps& keeps) {
    std::vector<Enclosure> rejected;
    for (const Enclosure& keep : flat(keeps.tokens)) rejected.push_back(1.0 - keep);
    add_metric("rollout_rs_masked_fraction", rejected, counts().valid_tokens);
  }

  /// Adds the metrics of the distances between the policies.
  void add_policy_metrics() {
    const KlType type = options_.reference_policy_kl_type;
    const auto add = [&](const char* name, auto&& f) {
      const auto term = [&](const TrueToken& token) {
        if (!token.has_generation()) return Enclosure();  // no distance to a policy
        return f(token.x.enclosure(), token.p.enclosure(), Enclosure(token.q));
      };
      add_metric(name, flat(each<Enclosure>(term)), counts().valid_tokens);
    };
    using E = const Enclosure&;
    add("token_mult_prob_error", [](E, E p, E q) { return exp(abs(q - p)); });
    add("gen_kl_error", [&](E, E p, E q) { return kl_estimate(type, p - q); });
    add("policy_kl_error", [&](E, E p, E q) { return kl_estimate(type, q - p); });
    add("js_divergence_error", [](E, E p, E q) { return js_estimate(p, q); });
    add("approx_entropy", [](E x, E, E q) { return -(exp(x - q) * x); });
    double samples = 0;
    for (const std::uint8_t mask : batch_.sample_mask) samples += mask;
    truth_.metrics["num_valid_samples"] = {Reduction::count, samples, 1};
  }
};

}  // namespace lossgrid
