// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/selection/selection_options.h"

#include "harness/core/error.h"
#include "harness/problem/batch/objective_inputs.h"
#include "impls/objectives/clipped_pg/clipped_pg_options.h"

namespace lossgrid {
namespace {

void refuse_selection(bool is_broken, const char* rule) {
  if (is_broken) throw_bad_input("clipped_pg: {}", rule);
}

}  // namespace

void require_selection_fits(const ClippedPgOptions& o) {
  refuse_selection(o.clip_cov_lb >= o.clip_cov_ub, "clip_cov_lb must be below clip_cov_ub");
  const bool by_entropy = o.top_entropy_quantile < 1;
  const bool by_covariance =
      o.policy_loss == PolicyLoss::clip_cov || o.policy_loss == PolicyLoss::kl_cov;
  refuse_selection(by_entropy && o.m2_threshold, "top_entropy_quantile excludes m2_threshold");
  refuse_selection(by_covariance && (by_entropy || o.m2_threshold),
                   "policy_loss = \"clip_cov\" and \"kl_cov\" exclude top_entropy_quantile and "
                   "m2_threshold");
  if (!o.selects()) return;
  refuse_selection(o.is_geo_mean(),
                   "policy_loss = \"geo_mean\" excludes top_entropy_quantile and m2_threshold");
  refuse_selection(o.sequence_ratio() && !o.gspo_token,
                   "sequence_level_importance_ratios = true with top_entropy_quantile or "
                   "m2_threshold needs gspo_token = true");
  refuse_selection(o.m2_threshold && o.force_on_policy_ratio,
                   "m2_threshold excludes force_on_policy_ratio = true");
  refuse_selection(o.m2_threshold && o.zero_weights_nonfinite(),
                   "m2_threshold excludes nonfinite_generation_logprobs = \"zero_weight\"");
}

void add_selection_needs(const ClippedPgOptions& o, ObjectiveNeeds& needs) {
  if (o.selection() == Selection::top_entropy) needs.terms.add(RowTerm::entropy);
  needs.selects = needs.whole_batch = o.selects();
  needs.draws = o.selection() == Selection::clip_cov;
}

}  // namespace lossgrid
