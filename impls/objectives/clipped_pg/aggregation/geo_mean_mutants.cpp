// SPDX-License-Identifier: Apache-2.0
// Mutants of the policy loss geo_mean (GMPO): other bounds and gradients of its logarithms, another
// mean, other advantages, and means over the rows of a microbatch.
#include <cmath>

#include "impls/mutants/mutant.h"
#include "impls/objectives/clipped_pg/wrong_formulas.h"

namespace lossgrid {
namespace {

bool has_geometric_mean(const ClippedPgOptions& options) {
  return options.is_geo_mean();
}

template <class Formulas>
std::unique_ptr<Objective> geo_mean_with(const ObjectiveSpec& spec) {
  return with_formulas<Formulas>(spec, has_geometric_mean);
}

struct LogClippedOnBothSides : ClippedPgFormulas {
  template <typename Real>
  static Slope<Real> one_sided_log(Real d, Real advantage, const ClippedPgOptions& options) {
    const Slope<Real> above = ClippedPgFormulas::one_sided_log(d, Real(1), options);
    if (advantage == 0 || above.slope == 0) return above;
    return ClippedPgFormulas::one_sided_log(d, Real(-1), options);
  }
};

/// `ClippedLogKeepsGradient`: as if a straight-through estimator stood in the place of the clamp.
struct ClippedLogKeepsGradient : ClippedPgFormulas {
  template <typename Real>
  static Slope<Real> one_sided_log(Real d, Real advantage, const ClippedPgOptions& options) {
    return {ClippedPgFormulas::one_sided_log(d, advantage, options).value, Real(1)};
  }
};

/// `BoundsOfRatios`: bounds 1 - l and 1 + h of the ratio, as those of PPO.
struct BoundsOfRatios : ClippedPgFormulas {
  template <typename Real>
  static Slope<Real> one_sided_log(Real d, Real advantage, const ClippedPgOptions& options) {
    ClippedPgOptions in_log_space = options;
    in_log_space.ratio_clip_min = -std::log1p(-options.ratio_clip_min);
    in_log_space.ratio_clip_max = std::log1p(options.ratio_clip_max);
    return ClippedPgFormulas::one_sided_log(d, advantage, in_log_space);
  }
};

struct ArithmeticMean : ClippedPgFormulas {
  template <typename Real>
  static Slope<Real> one_sided_log(Real d, Real advantage, const ClippedPgOptions& options) {
    const Slope<Real> log = ClippedPgFormulas::one_sided_log(d, advantage, options);
    return {std::exp(log.value), log.slope};
  }
  template <typename Real>
  static Real ratio(Real mean) {
    return mean;
  }
};

struct AdvantageOfToken : ClippedPgFormulas {
  template <typename Real>
  static Real geo_mean_advantage(Real own, Real /*mean*/) {
    return own;
  }
};

/// Divides by the sequences of the microbatch, and not by the number of microbatches.
void mean_over_rows_of_microbatch(PackedBatch& batch) {
  batch.denominators.valid_sequences = batch.sequences();
  batch.denominators.trained_sequences = batch.sequences();
  batch.denominators.all_sequences = batch.sequences();
}

const RegisteredMutant geo_mean_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M212",
        .name = "geo_mean_clips_both_sides",
        .what = "geo_mean: logarithms of ratios are clipped on both sides, whatever the advantage",
        .strategy = "fused",
        .objective = geo_mean_with<LogClippedOnBothSides>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M212",
        .name = "geo_mean_clipped_gradient",
        .what = "geo_mean: clipped tokens keep their gradient",
        .strategy = "cp_local",
        .objective = geo_mean_with<ClippedLogKeepsGradient>,
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M213",
        .name = "geo_mean_bounds_of_ratios",
        .what = "geo_mean: clips at log(1 - l) and log(1 + h)",
        .strategy = "fused",
        .objective = geo_mean_with<BoundsOfRatios>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M214",
        .name = "geo_mean_arithmetic",
        .what = "geo_mean: the mean of the ratios, not that of their logarithms",
        .strategy = "cp_local",
        .objective = geo_mean_with<ArithmeticMean>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M215",
        .name = "geo_mean_advantage_of_token",
        .what = "geo_mean: every token's own advantage in the place of the sequence's mean",
        .strategy = "fused",
        .objective = geo_mean_with<AdvantageOfToken>,
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M216",
        .name = "geo_mean_over_rows_of_microbatch",
        .what = "geo_mean: a mean over the rows of the microbatch, masked ones among them",
        .strategy = "fused",
        .batch = mean_over_rows_of_microbatch,
        .objective = geo_mean_with<ClippedPgFormulas>,
        .seen_in = "verl 0.9.1, geo_mean",
        .rejected_by = "loss",
    }),
};

}  // namespace
}  // namespace lossgrid
