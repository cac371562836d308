// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/selection/selection_options.h"

#include <cmath>

#include "harness/core/error.h"
#include "harness/problem/batch/objective_inputs.h"
#include "impls/objectives/clipped_pg/clipped_pg_options.h"
#include "impls/objectives/objective_options.h"

namespace lossgrid {
namespace {

void refuse_selection(bool is_broken, const char* rule) {
  if (is_broken) throw_bad_input("clipped_pg: {}", rule);
}

constexpr double kLargestSeed = 0x1p53;
constexpr NumberRule kSeed{"must be a whole number in [0, 2^53]", [](double x) {
                             return x >= 0 && x <= kLargestSeed && x == std::floor(x);
                           }};

}  // namespace

void SelectionOptions::read(const OptionReader& reader) {
  reader.read("clip_cov_ratio", clip_cov_ratio,
              {"share of the tokens that `clip_cov` [selects](#selections-of-tokens)",
               "verl",
               kShareAbove0,
               {"0.1", "0.5"}});
  reader.read("clip_cov_lb", clip_cov_lb,
              {"lower bound of the covariance of the candidates of `clip_cov`",
               "verl",
               {},
               {"0.02", "-100.0"}});
  reader.read(
      "clip_cov_ub", clip_cov_ub,
      {"upper bound of the covariance of the candidates of `clip_cov`", "verl", {}, {"0.8"}});
  reader.read("clip_cov_seed", clip_cov_seed,
              {"seed of the lots of `clip_cov`", "stands for torch's generator", kSeed, {"2.0"}});
  reader.read("kl_cov_ratio", kl_cov_ratio,
              {"share of the tokens that `kl_cov` [selects](#selections-of-tokens)",
               "verl",
               kShareAbove0,
               {"0.2"}});
  reader.read("ppo_kl_coef", ppo_kl_coef,
              {"weight of the penalty of `kl_cov`", "verl", kNotNegative, {"0.5"}});
  reader.read(
      "top_entropy_quantile", top_entropy_quantile,
      {"share of the tokens, those with the highest entropies, that keep their policy term: "
       "see [selections](#selections-of-tokens)",
       "TRL",
       kShare,
       {"0.3", "0.7"}});
  reader.read("m2_threshold", m2_threshold,
              {"M2PO: the tokens with the largest (prev - generation)² lose their policy term: see "
               "[selections](#selections-of-tokens)",
               "AReaL",
               kAbove0,
               {"0.02", "2e-07"}});
}

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
