// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/clipped_pg_draw.h"

#include <cmath>

#include "harness/problem/batch/draw.h"
#include "impls/objectives/clipped_pg/ratio/policy_versions.h"

namespace lossgrid {
namespace {

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

PolicyEdges clipped_pg_edges(const ClippedPgOptions& options) {
  PolicyEdges edges;
  add_policy_edges(options, edges);
  add_ratio_edges(options, edges);
  add_weight_edges(options, edges);
  add_rejection_edges(options, edges);
  add_kl_edges(options, edges);
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
