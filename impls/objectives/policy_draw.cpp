// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/policy_draw.h"

#include <algorithm>
#include <cmath>

#include "harness/problem/batch/draw.h"

namespace lossgrid {
namespace {

/// Returns base + offset, or a value below the base where that would be no log-probability.
/// Requires base <= 0.
double shifted(double base, double offset) {
  return base + offset <= 0 ? base + offset : base - std::abs(offset);
}

/// Returns the log of the ratio to the previous policy: inside and on both sides of clip ranges of
/// 0.2, and on both sides of a dual clip of 3.
double drawn_log_ratio(const Draw& draw) {
  const double branch = draw.uniform(0);
  if (branch < 0.35) return 0.05 * draw.normal();
  if (branch < 0.65) return draw.between(0.25, 0.6, 1);
  if (branch < 0.90) return -draw.between(0.25, 0.6, 1);
  if (branch < 0.95) return draw.between(1.2, 1.6, 1);
  return -draw.between(1.2, 1.6, 1);
}

/// Returns the log of an importance weight.
double drawn_log_weight(const Draw& draw) {
  if (draw.uniform(0) < 0.8) return 0.1 * draw.normal();
  return with_sign(draw.uniform(2) < 0.5, draw.between(0.3, 1, 1));
}

double drawn_reference_offset(const Draw& draw) {
  if (draw.uniform(0) < 0.9) return 0.5 * draw.normal();
  return with_sign(draw.uniform(2) < 0.5, draw.between(1.5, 2.5, 1));
}

/// Returns an offset beyond what bounds the difference of log-probabilities, or its estimate.
double far_teacher_offset(const Draw& draw) {
  const bool is_beyond_all = draw.uniform(0) < 0.5;
  const double size = is_beyond_all ? draw.between(25, 40, 1) : draw.between(2.6, 5, 1);
  return with_sign(draw.uniform(2) < 0.5, size);
}

/// Log-probabilities of a token by the policies other than the current one.
struct Policies {
  double prev = 0;
  double generation = 0;
  double reference = 0;
  double teacher = 0;
};

/// Moves one of the log-probabilities far away: the reference beyond the input clamp of the KL (20)
/// or beyond its output clamp (10), or generation until exp(prev - generation) is no float32.
void drift_far(const Draw& draw, double x, Policies& policies) {
  const double kind = 3 * draw.uniform(1);
  const bool above = draw.uniform(2) < 0.5;
  if (kind < 1) {
    policies.reference = shifted(x, with_sign(above, draw.between(25, 40, 3)));
  } else if (kind < 2) {
    policies.reference = shifted(x, with_sign(above, draw.between(2.6, 5, 3)));
  } else {
    policies.generation = shifted(policies.prev, with_sign(above, draw.between(100, 110, 3)));
  }
}

/// Returns the log-probability that lies one of the edges below `from`, one of the edges above it
/// if `above`: as a float32, that or a neighbour or one that is 2^-10 off, each as likely. Near a
/// number whose neighbours are further than any edge it is the number itself: the exponential of
/// such a distance is infinite.
double at_edge(const Draw& draw, const Edges& edges, double from, bool above) {
  const auto pick = [&](int count, std::uint32_t column) {
    return static_cast<int>(count * draw.uniform(column));
  };
  const double edge = edges.at[static_cast<std::size_t>(pick(std::max(edges.count, 1), 0))];
  const auto nearest = static_cast<float>(shifted(from, above ? edge : -edge));
  constexpr float kNoNeighbours = 0x1p24f;
  if (std::abs(nearest) >= kNoNeighbours) return static_cast<float>(from);
  switch (pick(5, 1)) {
    case 1:
      return std::nextafter(nearest, -HUGE_VALF);
    case 2:
      return std::min(0.0f, std::nextafter(nearest, HUGE_VALF));
    case 3:
      return nearest - 0x1p-10;
    case 4:
      return std::min(0.0, nearest + 0x1p-10);
    default:
      return nearest;
  }
}

/// Draws them at `edges`.
Policies policies_at_edges(const TokenToDraw& token, const PolicyEdges& edges) {
  const double x = token.number;
  const std::int64_t index =
      edges.sequences_per_edge > 0 ? token.sequence / edges.sequences_per_edge : token.token;
  const auto draw = [&](Stream stream) { return Draw(token.spec.seed, stream, index); };
  Policies policies;
  policies.prev = at_edge(draw(Stream::prev_logprobs), edges.log_ratios, x, false);
  const double from = edges.weights_from_current ? x : policies.prev;
  policies.generation = at_edge(draw(Stream::generation_logprobs), edges.log_weights, from, false);
  policies.reference =
      at_edge(draw(Stream::reference_policy_logprobs), edges.reference_offsets, x, true);
  policies.teacher = at_edge(draw(Stream::teacher_logprobs), edges.teacher_offsets, x,
                             draw(Stream::teacher_logprobs).uniform(2) < 0.5);
  return policies;
}

/// Draws them away from the current policy.
Policies drawn_policies(const TokenToDraw& token) {
  const CaseSpec& spec = token.spec;
  const double x = token.number;
  if (spec.drift == Drift::equal) return {x, x, x, x};
  const auto draw = [&](Stream stream) { return Draw(spec.seed, stream, token.token); };
  const double sequence_drift =
      0.15 * Draw(spec.seed, Stream::sequence_drift, token.sequence).normal();
  Policies policies;
  const Draw far = draw(Stream::far_tokens);
  policies.prev = shifted(x, -(drawn_log_ratio(draw(Stream::prev_logprobs)) + sequence_drift));
  if (spec.drift == Drift::far_prev && far.uniform(0) < 0.25) {
    const bool above = x < -40 && far.uniform(2) < 0.5;
    policies.prev = x + with_sign(above, far.between(25, 40, 3));
  }
  policies.generation =
      shifted(policies.prev, -drawn_log_weight(draw(Stream::generation_logprobs)));
  policies.reference = shifted(x, drawn_reference_offset(draw(Stream::reference_policy_logprobs)));
  const Draw of_teacher = draw(Stream::teacher_logprobs);
  policies.teacher = shifted(x, spec.drift == Drift::far && of_teacher.uniform(3) < 1.0 / 3
                                    ? far_teacher_offset(of_teacher)
                                    : drawn_reference_offset(of_teacher));
  if (spec.drift == Drift::far && far.uniform(0) < 0.1) drift_far(far, x, policies);
  return policies;
}

double drawn_advantage(const Draw& draw) {
  return draw.uniform(0) < 0.1 ? 0 : draw.normal();
}

}  // namespace

DrawnInputs policy_inputs(const TokenToDraw& token, const PolicyEdges& edges) {
  const CaseSpec& spec = token.spec;
  const Policies policies =
      spec.drift == Drift::edge ? policies_at_edges(token, edges) : drawn_policies(token);
  DrawnInputs inputs;
  inputs[TokenInput::advantages] =
      drawn_advantage(Draw(spec.seed, Stream::advantages, token.token));
  inputs[TokenInput::prev_logprobs] = policies.prev;
  inputs[TokenInput::generation_logprobs] = policies.generation;
  inputs[TokenInput::reference_policy_logprobs] = policies.reference;
  inputs[TokenInput::teacher_logprobs] = policies.teacher;
  return inputs;
}

DrawnInputs PolicyDraw::inputs(const TokenToDraw& token) const {
  return policy_inputs(token, edges_);
}

double PolicyDraw::reward(const CaseSpec& spec, std::int64_t sequence) const {
  const Draw draw(spec.seed, Stream::rewards, sequence);
  return spec.drift == Drift::edge && draw.uniform(0) < 1.0 / 3 ? 0 : draw.normal();
}

PolicyEdges policy_edges(const Objective& objective) {
  const std::shared_ptr<const InputDraw> draw = objective.input_draw();
  const auto* of_policies = dynamic_cast<const PolicyDraw*>(draw.get());
  return of_policies != nullptr ? of_policies->edges() : PolicyEdges();
}

}  // namespace lossgrid
