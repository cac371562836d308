// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg_selection_options.h"

#include <cmath>

#include "harness/core/error.h"
#include "impls/objectives/clipped_pg_options.h"
#include "impls/objectives/objective_options.h"

namespace lossgrid {
namespace {

void refuse_selection(bool is_broken, const char* rule) {
  if (is_broken) throw_bad_input("clipped_pg: {}", rule);
}

bool is_no_share(double ratio) {
  return ratio <= 0 || ratio > 1;
}

constexpr double kLargestSeed = 0x1p53;

void require_selection_values(const SelectionOptions& o) {
  refuse_selection(is_no_share(o.clip_cov_ratio), "clip_cov_ratio must be in (0, 1]");
  refuse_selection(o.clip_cov_lb >= o.clip_cov_ub, "clip_cov_lb must be below clip_cov_ub");
  refuse_selection(o.clip_cov_seed < 0 || o.clip_cov_seed > kLargestSeed ||
                       o.clip_cov_seed != std::floor(o.clip_cov_seed),
                   "clip_cov_seed must be a whole number in [0, 2^53]");
  refuse_selection(is_no_share(o.kl_cov_ratio), "kl_cov_ratio must be in (0, 1]");
  refuse_selection(o.ppo_kl_coef < 0, "ppo_kl_coef must not be negative");
  refuse_selection(o.top_entropy_quantile < 0 || o.top_entropy_quantile > 1,
                   "top_entropy_quantile must be in [0, 1]");
  refuse_selection(o.m2_threshold && *o.m2_threshold <= 0, "m2_threshold must be above 0, or null");
}

}  // namespace

SelectionOptions SelectionOptions::read(const OptionReader& reader) {
  SelectionOptions o;
  const auto number = [&](const char* option, double& value) {
    value = reader.number(option, value);
  };
  number("clip_cov_ratio", o.clip_cov_ratio);
  number("clip_cov_lb", o.clip_cov_lb);
  number("clip_cov_ub", o.clip_cov_ub);
  number("clip_cov_seed", o.clip_cov_seed);
  number("kl_cov_ratio", o.kl_cov_ratio);
  number("ppo_kl_coef", o.ppo_kl_coef);
  number("top_entropy_quantile", o.top_entropy_quantile);
  o.m2_threshold = reader.optional_number("m2_threshold", o.m2_threshold);
  return o;
}

void require_selection_fits(const ClippedPgOptions& o) {
  const SelectionOptions& selecting = o.selecting;
  require_selection_values(selecting);
  const bool by_entropy = selecting.top_entropy_quantile < 1;
  const bool by_covariance =
      o.policy_loss == PolicyLoss::clip_cov || o.policy_loss == PolicyLoss::kl_cov;
  refuse_selection(by_entropy && selecting.m2_threshold,
                   "top_entropy_quantile excludes m2_threshold");
  refuse_selection(by_covariance && (by_entropy || selecting.m2_threshold),
                   "policy_loss = \"clip_cov\" and \"kl_cov\" exclude top_entropy_quantile and "
                   "m2_threshold");
  if (!o.selects()) return;
  refuse_selection(o.is_geo_mean(),
                   "policy_loss = \"geo_mean\" excludes top_entropy_quantile and m2_threshold");
  refuse_selection(o.sequence_ratio() && !o.gspo_token,
                   "sequence_level_importance_ratios = true with top_entropy_quantile or "
                   "m2_threshold needs gspo_token = true");
  refuse_selection(selecting.m2_threshold && o.force_on_policy_ratio,
                   "m2_threshold excludes force_on_policy_ratio = true");
  refuse_selection(selecting.m2_threshold && o.takes_lack_of_generation(),
                   "m2_threshold excludes nonfinite_generation_logprobs = \"zero_weight\"");
}

}  // namespace lossgrid
