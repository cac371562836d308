// SPDX-License-Identifier: Apache-2.0
// ClippedPgOptions: the options of `clipped_pg` by part of its formula, and the consequences of
// their combination. Names and defaults are those of NeMo-RL's `ClippedPGLossConfig`, of others
// those of the framework that named them first. Combinations without a meaning are refused, among
// them those that NeMo-RL refuses. nvcc compiles this header.
#pragma once

#include <map>
#include <string>

#include "impls/objectives/clipped_pg/aggregation/aggregation_options.h"
#include "impls/objectives/clipped_pg/kl/kl_options.h"
#include "impls/objectives/clipped_pg/policy/policy_options.h"
#include "impls/objectives/clipped_pg/ratio/ratio_options.h"
#include "impls/objectives/clipped_pg/rejection/rejection_options.h"
#include "impls/objectives/clipped_pg/selection/selection_options.h"
#include "impls/objectives/clipped_pg/weights/weight_options.h"

namespace lossgrid {

struct ObjectiveNeeds;
class OptionReader;

struct ClippedPgOptions : AggregationOptions,
                          PolicyLossOptions,
                          RatioOptions,
                          KlOptions,
                          WeightOptions,
                          RejectionOptions,
                          SelectionOptions {
  /// Throws bad_input for an unknown option, a bad value or a combination that is not allowed.
  static ClippedPgOptions from(const std::map<std::string, std::string>& options);
  static ClippedPgOptions read(const OptionReader& reader);

  /// True if the loss has clip bounds of the ratio.
  constexpr bool clips() const {
    return has_ratio() && (policy_loss == PolicyLoss::ppo || policy_loss == PolicyLoss::clip_cov);
  }
  constexpr Selection selection() const {
    if (policy_loss == PolicyLoss::clip_cov) return Selection::clip_cov;
    if (policy_loss == PolicyLoss::kl_cov) return Selection::kl_cov;
    if (top_entropy_quantile < 1) return Selection::top_entropy;
    return m2_threshold ? Selection::second_moment : Selection::none;
  }
  constexpr bool selects() const { return selection() != Selection::none; }
  /// True if all tokens of a sequence share one importance weight.
  constexpr bool weighs_sequences() const {
    return rollout_is ? *rollout_is != WeightLevel::token : sequence_level_importance_ratios;
  }

  ObjectiveNeeds needs() const;
};

}  // namespace lossgrid
