// SPDX-License-Identifier: Apache-2.0
// Mutants of off-policy corrections: weights, rejections and masks by other numbers or of others.
#include "impls/mutants/mutant.h"
#include "impls/mutants/wrong_formulas.h"

namespace lossgrid {
namespace {

/// Returns clipped_pg with other corrections; null if `change` returns false.
std::unique_ptr<Objective> with_corrections(const ObjectiveSpec& spec,
                                            bool (*change)(ClippedPgOptions&)) {
  if (spec.kind != "clipped_pg") return nullptr;
  ClippedPgOptions options = ClippedPgOptions::from(spec.options);
  if (!change(options)) return nullptr;
  return std::make_unique<ClippedPgObjective<>>(options);
}

/// `ReciprocalBounds`: k1 as the negative log weight, so that bounds apply to its reciprocal.
struct ReciprocalBounds : ClippedPgFormulas {
  template <typename Real>
  static bool is_rejected(Real number, const ClippedPgOptions& options) {
    const bool is_k1 = options.rejection_statistic == RejectionStatistic::k1;
    return ClippedPgFormulas::is_rejected(is_k1 ? -number : number, options);
  }
  template <typename Real>
  static bool rejects_sequence(Real sum, Real mean, const ClippedPgOptions& options) {
    return ClippedPgFormulas::rejects_sequence(-sum, -mean, options);
  }
};

bool rejects_by_k1(const ClippedPgOptions& options) {
  return options.rejection_level != RejectionLevel::none &&
         options.rejection_statistic == RejectionStatistic::k1;
}

template <RejectionLevel from, RejectionLevel to>
bool rejects_at_other_level(ClippedPgOptions& options) {
  const bool applies = options.rejection_level == from;
  options.rejection_level = to;
  return applies;
}

bool without_veto(ClippedPgOptions& options) {
  const bool vetoes = options.vetoes();
  options.veto_ratio_min.reset();
  options.veto_ratio_max.reset();
  return vetoes;
}

/// `MasksAllAdvantages`: off-policy masking of positive advantages too.
struct MasksAllAdvantages : ClippedPgFormulas {
  template <typename Real>
  static bool is_maskable(Real /*advantage*/) {
    return true;
  }
};

bool without_token_masks(ClippedPgOptions& options) {
  const bool are_first = options.token_masks_first;
  options.token_masks_first = false;
  return are_first;
}

bool products_for_means(ClippedPgOptions& options) {
  const bool is_geometric = options.rollout_is == WeightLevel::geometric;
  options.rollout_is = WeightLevel::sequence;
  return is_geometric;
}

const RegisteredMutant rejection_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M164",
        .name = "veto_ignored",
        .what = "a token with a weight far outside does not take its sequence with it",
        .strategy = "fused",
        .objective = [](const ObjectiveSpec& spec) { return with_corrections(spec, without_veto); },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M165",
        .name = "rejection_bounds_reciprocal",
        .what = "bounds of rejection by k1 apply to the reciprocal of the weight",
        .strategy = "cp_local",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<ReciprocalBounds>(spec, rejects_by_k1);
            },
        .seen_in = "verl 0.9.1",
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M166",
        .name = "rejection_by_sum",
        .what = "sequences are rejected by a sum, not by a mean",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_corrections(spec, rejects_at_other_level<RejectionLevel::sequence_mean,
                                                                   RejectionLevel::sequence_sum>);
            },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M166",
        .name = "rejection_by_mean",
        .what = "sequences are rejected by a mean, not by their largest number",
        .strategy = "cp_local",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_corrections(spec, rejects_at_other_level<RejectionLevel::sequence_max,
                                                                   RejectionLevel::sequence_mean>);
            },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M167",
        .name = "off_policy_mask_of_all",
        .what = "off-policy masking drops positive advantages too",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<MasksAllAdvantages>(spec, [](const ClippedPgOptions& o) {
                return o.off_policy_mask_threshold.has_value();
              });
            },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M168",
        .name = "sequence_weight_before_masks",
        .what = "weights of sequences count tokens that were rejected before",
        .strategy = "cp_local",
        .objective =
            [](const ObjectiveSpec& spec) { return with_corrections(spec, without_token_masks); },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M169",
        .name = "geometric_weight_is_product",
        .what = "the weight of a sequence is the product of its tokens', not their mean",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& spec) { return with_corrections(spec, products_for_means); },
        .rejected_by = "loss",
    }),
};

}  // namespace
}  // namespace lossgrid
