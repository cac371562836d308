// SPDX-License-Identifier: Apache-2.0
// SelectionOptions: the options of `clipped_pg` by which all valid tokens of a pack, which holds
// the whole global batch, decide about the policy term of each of them. nvcc compiles this header.
#pragma once

#include <optional>

namespace lossgrid {

struct ClippedPgOptions;
struct ObjectiveNeeds;
class OptionReader;

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

/// Throws bad_input for a bad value or a combination that is not allowed.
void require_selection_fits(const ClippedPgOptions& options);

/// Adds the needs of the selection: the whole batch, entropies, lots.
void add_selection_needs(const ClippedPgOptions& options, ObjectiveNeeds& needs);

}  // namespace lossgrid
