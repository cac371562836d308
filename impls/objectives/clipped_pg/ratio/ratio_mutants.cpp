// SPDX-License-Identifier: Apache-2.0
// Mutants of conventions: of ratios and their bounds, and of the gradient of the KL term.
#include <cmath>

#include "impls/mutants/mutant.h"
#include "impls/objectives/clipped_pg/wrong_formulas.h"

namespace lossgrid {
namespace {

/// Returns clipped_pg with another convention; null if `change` returns false.
std::unique_ptr<Objective> with_convention(const ObjectiveSpec& spec,
                                           bool (*change)(ClippedPgOptions&)) {
  if (spec.kind != "clipped_pg") return nullptr;
  ClippedPgOptions options = ClippedPgOptions::from(spec.options);
  if (!change(options)) return nullptr;
  return std::make_unique<ClippedPgObjective<>>(options);
}

struct GradientBeyondLogBounds : ClippedPgFormulas {
  template <typename Real>
  static Slope<Real> bounded_log(Real log_ratio, const ClippedPgOptions& options) {
    return {ClippedPgFormulas::bounded_log(log_ratio, options).value, Real(1)};
  }
};

bool bounds_logs(const ClippedPgOptions& options) {
  return options.log_ratio_min || options.log_ratio_max;
}

bool gspo_token_for_gspo(ClippedPgOptions& options) {
  const bool applies = options.sequence_ratio() && !options.gspo_token;
  options.gspo_token = true;
  return applies;
}

template <KlGradient from, KlGradient to>
bool kl_gradient_is_other(ClippedPgOptions& options) {
  const bool applies = options.kl_gradient == from && options.kl_penalty() != 0;
  options.kl_gradient = to;
  return applies;
}

/// `KlRatioDetached`: the ratio weighs the KL and has no gradient.
struct KlRatioDetached : ClippedPgFormulas {
  template <typename Real>
  static Slope<Real> kl_ratio(Real log_ratio) {
    return {ClippedPgFormulas::kl_ratio(log_ratio).value, Real(0)};
  }
};

struct KlImportanceNotTruncated : ClippedPgFormulas {
  template <typename Real>
  static Real kl_replaced_slope(Real x, Real p, Real f, KlGradient /*kind*/) {
    return std::exp(x - p) * (x - f);
  }
};

const RegisteredMutant ratio_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M158",
        .name = "log_bound_passes_gradient",
        .what = "the logarithm of a ratio beyond its bound keeps its gradient",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<GradientBeyondLogBounds>(spec, bounds_logs);
            },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M159",
        .name = "gspo_token_for_gspo",
        .what = "the gradient of GSPO-token in the place of that of GSPO",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& spec) { return with_convention(spec, gspo_token_for_gspo); },
        .seen_in = "verl, SkyRL, by design",
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M161",
        .name = "kl_gradient_of_value",
        .what = "straight through: the gradient is that of the estimator",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_convention(
                  spec, kl_gradient_is_other<KlGradient::straight_through, KlGradient::value>);
            },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M161",
        .name = "kl_gradient_of_score",
        .what = "the KL term has a score gradient where it should not",
        .strategy = "cp_local",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_convention(spec,
                                     kl_gradient_is_other<KlGradient::value, KlGradient::score>);
            },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M162",
        .name = "kl_importance_not_truncated",
        .what = "the importance weight of the KL gradient is not truncated at 10",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<KlImportanceNotTruncated>(spec, [](const ClippedPgOptions& o) {
                return o.kl_gradient == KlGradient::importance && o.kl_penalty() != 0;
              });
            },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M163",
        .name = "kl_ratio_detached",
        .what = "the ratio that weighs the KL has no gradient",
        .strategy = "cp_local",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<KlRatioDetached>(spec, [](const ClippedPgOptions& o) {
                return o.kl_gradient == KlGradient::ratio && o.kl_penalty() != 0;
              });
            },
        .rejected_by = "grad_logits",
    }),
};

}  // namespace
}  // namespace lossgrid
