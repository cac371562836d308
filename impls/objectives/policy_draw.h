// SPDX-License-Identifier: Apache-2.0
// `PolicyDraw`: advantages, rewards and log-probabilities by other policies for a case, drawn
// around the true log-probability x of a token so that every branch of an objective is reached:
// ratios on both sides of the clip range, KL in its live range, importance weights inside and
// outside of their bounds. By spec.drift:
//   near: x - prev from a mixture with mass inside and on both sides of the usual clip ranges and
//   some beyond a dual clip, plus an offset by sequence; prev - generation mostly N(0, 0.1), a
//   fifth 0.3 to 1 away; reference - x and teacher - x mostly N(0, 0.5), a tenth 1.5 to 2.5 away;
//   far: the same, and every tenth token beyond the KL clamps (20 and 10) or with an importance
//   weight that is not finite in float32, and every third teacher 25 to 40 or 2.6 to 5 away;
//   equal: prev = generation = reference = teacher = x as float32;
//   far_prev: as near, and prev of every fourth token 25 to 40 below x, or half of them above it
//   where x is below -40, generation around it: ratios of e^25 to e^40, and of e^-40 to e^-25;
//   edge: distances at one of the objective's edges, as near as float32 comes, one float32 further
//   or 2^-10 further, to either side: close enough that an edge in bf16 is another one, and
//   further than any rounding.
// Advantages are N(0, 1), every tenth 0; rewards N(0, 1), for edge every third 0. No drawn
// log-probability is positive.
#pragma once

#include <array>
#include <cstdint>

#include "harness/loss/objective.h"
#include "harness/problem/batch/input_draw.h"

namespace lossgrid {

/// Distances between two log-probabilities at which the formula of an objective switches; 0 alone
/// if there are none.
struct Edges {
  std::array<double, 8> at{};
  int count = 0;

  void add(double distance) { at[static_cast<std::size_t>(count++)] = distance; }
};

/// The edges of an objective by pair of policies.
struct PolicyEdges {
  Edges log_ratios{};                   // current - previous
  Edges log_weights{};                  // previous - generation
  Edges reference_offsets{};            // reference - current
  Edges teacher_offsets{};              // teacher - current
  bool weights_from_current = false;    // log_weights are current - generation
  std::int64_t sequences_per_edge = 0;  // neighbours that share one; 0: each token has its own
};

class PolicyDraw : public InputDraw {
 public:
  explicit PolicyDraw(const PolicyEdges& edges = {}) : edges_(edges) {}

  const PolicyEdges& edges() const { return edges_; }

  DrawnInputs inputs(const TokenToDraw& token) const override;
  double reward(const CaseSpec& spec, std::int64_t sequence) const override;

 private:
  const PolicyEdges edges_;
};

/// Draws the inputs of a token, where drift is edge at `edges`.
DrawnInputs policy_inputs(const TokenToDraw& token, const PolicyEdges& edges);

/// Returns the edges of an objective whose inputs a PolicyDraw draws, else none.
PolicyEdges policy_edges(const Objective& objective);

}  // namespace lossgrid
