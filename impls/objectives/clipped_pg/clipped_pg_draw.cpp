// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/clipped_pg_draw.h"

#include <cmath>

#include "harness/problem/batch/draw.h"
#include "impls/objectives/clipped_pg/ratio/policy_versions.h"
#include "impls/objectives/k3_root.h"

namespace lossgrid {
namespace {

/// Returns the distances at which the KL meets its clamps.
Edges kl_edges(const ClippedPgOptions& o) {
  Edges edges;
  for (const double sign : {1.0, -1.0}) {
    if (o.kl_input_clamp_value) edges.add(sign * *o.kl_input_clamp_value);
    if (!o.kl_output_clamp_value) continue;
    const double bound = *o.kl_output_clamp_value;
    const bool is_linear =
        o.reference_policy_kl_type == KlType::k1 || o.reference_policy_kl_type == KlType::abs;
    edges.add(is_linear                                  ? sign * bound
              : o.reference_policy_kl_type == KlType::k2 ? sign * std::sqrt(2 * bound)
                                                         : k3_root(bound, sign));
  }
  return edges;
}

/// Adds the log weights at which tokens, or sequences of equal ones, are rejected.
void add_rejection_edges(const ClippedPgOptions& o, Edges& edges) {
  if (o.veto_ratio_min) edges.add(std::log(*o.veto_ratio_min));
  if (o.veto_ratio_max) edges.add(std::log(*o.veto_ratio_max));
  if (o.rejection_level == RejectionLevel::none) return;
  const double bound = *o.rollout_rs_threshold;
  for (const double sign : {1.0, -1.0}) {
    if (o.rejection_statistic == RejectionStatistic::k2) edges.add(sign * std::sqrt(2 * bound));
    if (o.rejection_statistic == RejectionStatistic::k3) edges.add(k3_root(bound, sign));
  }
  if (o.rejection_statistic != RejectionStatistic::k1) return;
  edges.add(std::log(bound));
  if (o.rollout_rs_threshold_min) edges.add(std::log(*o.rollout_rs_threshold_min));
}

/// Returns the edges `times` as far away.
Edges farther(Edges edges, double times) {
  for (double& distance : edges.at) distance *= times;
  return edges;
}

/// Returns the log-probability of the generating policy, or for every eighth token what an engine
/// sends that has none: -inf, inf or NaN.
double with_lack(const CaseSpec& spec, std::int64_t t, double logprob) {
  const Draw draw(spec.seed, Stream::lacking_logprobs, t);
  if (draw.uniform(0) >= 0.125) return logprob;
  const double kind = draw.uniform(1);
  return kind < 0.4 ? -HUGE_VAL : kind < 0.8 ? std::nan("") : HUGE_VAL;
}

}  // namespace

PolicyEdges clipped_pg_edges(const ClippedPgOptions& o) {
  PolicyEdges edges;
  if (o.clips()) {
    if (o.lowest_ratio() > 0) edges.log_ratios.add(std::log(o.lowest_ratio()));
    if (o.highest_ratio() > 0) edges.log_ratios.add(std::log(o.highest_ratio()));
    if (o.ratio_clip_c) edges.log_ratios.add(std::log(*o.ratio_clip_c));
  }
  if (o.is_geo_mean()) {
    edges.log_ratios.add(-o.ratio_clip_min);
    edges.log_ratios.add(o.ratio_clip_max);
  }
  if (o.log_ratio_min) edges.log_ratios.add(*o.log_ratio_min);
  if (o.log_ratio_max) edges.log_ratios.add(*o.log_ratio_max);
  if (o.truncates()) {
    const auto& low = o.truncated_importance_sampling_ratio_min;
    if (low && *low > 0) edges.log_weights.add(std::log(*low));
    edges.log_weights.add(std::log(*o.truncated_importance_sampling_ratio));
  }
  add_rejection_edges(o, edges.log_weights);
  edges.reference_offsets = kl_edges(o);
  edges.weights_from_current = o.force_on_policy_ratio || o.approximates_proximal();
  const bool is_by_sequence = o.sequence_ratio() || o.masks_sequences() ||
                              o.rejection_level == RejectionLevel::sequence_mean;
  if (is_by_sequence) edges.sequences_per_edge = 1;
  return edges;
}

DrawnInputs ClippedPgDraw::inputs(const TokenToDraw& token) const {
  const CaseSpec& spec = token.spec;
  PolicyEdges edges = this->edges();
  double version = 0;
  if (options_.approximates_proximal()) {
    const auto current = static_cast<std::int64_t>(*options_.current_version);
    version = drawn_version(spec.seed, current, token.token);
    edges.log_weights = farther(edges.log_ratios, steps_behind(version, current));
  }
  DrawnInputs inputs = policy_inputs(token, edges);
  inputs[TokenInput::versions] = version;
  if (options_.nonfinite_generation_logprobs != NonfiniteGeneration::refuse) {
    double& generation = inputs[TokenInput::generation_logprobs];
    generation = with_lack(spec, token.token, generation);
  }
  return inputs;
}

}  // namespace lossgrid
