// SPDX-License-Identifier: Apache-2.0
// SelectionOptions: the options of `clipped_pg` by which all valid tokens of a pack, which holds
// the whole global batch, decide about the policy term of each of them. nvcc compiles this header.
#pragma once

#include <cmath>
#include <optional>

#include "impls/objectives/objective_options.h"

namespace lossgrid {

struct ClippedPgOptions;
struct ObjectiveNeeds;

/// Tokens that are selected, and what becomes of them. With n valid tokens and the covariance
/// (A - mean A)(x - mean x) of advantage and log-probability:
enum class Selection {
  none,
  // max(1, ratio n) tokens, by lot, of those with a covariance between two bounds that PPO does
  // not clip, lose their policy term.
  clip_cov,
  kl_cov,         // the max(1, ratio n) of the largest covariance have a penalty
  top_entropy,    // those with an entropy under a quantile lose their policy term
  second_moment,  // M2PO: those with the largest (prev - generation)^2 lose theirs
};

struct SelectionOptions {
  double clip_cov_ratio = 0.0002;  // verl, as all of clip_cov and kl_cov but the seed
  double clip_cov_lb = 1.0;
  double clip_cov_ub = 5.0;
  double clip_cov_seed = 0;  // of the lots
  double kl_cov_ratio = 0.0002;
  double ppo_kl_coef = 0.1;            // of the penalty |x - prev|
  double top_entropy_quantile = 1;     // share of the tokens that is kept; TRL
  std::optional<double> m2_threshold;  // the mean of the rest is below; AReaL

  void read(const OptionReader& reader);
};

inline constexpr double kLargestSeedOfLots = 0x1p53;
inline constexpr NumberRule kSeedOfLots{
    "must be a whole number in [0, 2^53]",
    [](double x) { return x >= 0 && x <= kLargestSeedOfLots && x == std::floor(x); }};

inline void SelectionOptions::read(const OptionReader& reader) {
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
  reader.read(
      "clip_cov_seed", clip_cov_seed,
      {"seed of the lots of `clip_cov`", "stands for torch's generator", kSeedOfLots, {"2.0"}});
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

/// Throws bad_input for a bad value or a combination that is not allowed.
void require_selection_fits(const ClippedPgOptions& options);

/// Adds the needs of the selection: the whole batch, entropies, lots.
void add_selection_needs(const ClippedPgOptions& options, ObjectiveNeeds& needs);

}  // namespace lossgrid
