// SPDX-License-Identifier: Apache-2.0
// `ClippedPgDraw`: the inputs of `clipped_pg` for a case: policies at the distances at which its
// formula switches, and the versions of the policy that sampled. Where generation_logprobs may be
// not finite, those of every eighth token are -inf, inf or NaN.
#pragma once

#include "impls/objectives/clipped_pg/clipped_pg_options.h"
#include "impls/objectives/policy_draw.h"

namespace lossgrid {

/// Returns the distances at which the formula switches. With versions, those of log_ratios are to
/// a policy between the current and the generating one, which each token has elsewhere.
PolicyEdges clipped_pg_edges(const ClippedPgOptions& options);

class ClippedPgDraw final : public PolicyDraw {
 public:
  explicit ClippedPgDraw(const ClippedPgOptions& options)
      : PolicyDraw(clipped_pg_edges(options)), options_(options) {}

  DrawnInputs inputs(const TokenToDraw& token) const override;

 private:
  const ClippedPgOptions options_;
};

}  // namespace lossgrid
