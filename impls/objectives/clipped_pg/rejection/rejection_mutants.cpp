// SPDX-License-Identifier: Apache-2.0
// Mutants of off-policy corrections: weights, rejections and masks by other numbers or of others.
#include <algorithm>
#include <cmath>
#include <set>

#include "impls/mutants/mutant.h"
#include "impls/objectives/clipped_pg/wrong_formulas.h"

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

/// `MasksAllAdvantages`: off-policy masking of positive advantages too.
struct MasksAllAdvantages : ClippedPgFormulas {
  template <typename Real>
  static bool is_maskable(Real /*advantage*/) {
    return true;
  }
};

/// `VetoesAfterMasks`: a token that is rejected by itself does not take its sequence with it.
struct VetoesAfterMasks : ClippedPgFormulas {
  static bool may_veto(bool is_kept, const ClippedPgOptions& options) {
    return is_kept || !options.token_masks_first;
  }
};

bool products_for_means(ClippedPgOptions& options) {
  const bool is_geometric = options.rollout_is == WeightLevel::geometric;
  options.rollout_is = WeightLevel::sequence;
  return is_geometric;
}

bool takes_lack(const ClippedPgOptions& options) {
  return options.zero_weights_nonfinite();
}

/// `LackingWeightClamped`: the logarithm of a weight is at most 20, also where there is none.
struct LackingWeightClamped : ClippedPgFormulas {
  template <typename Real>
  static Real finite_exp(Real x) {
    return std::exp(x < 20 ? x : Real(20));
  }
};

/// `LackingWeightInMask`: a weight that does not exist takes part in the mean of its sequence.
struct LackingWeightInMask : ClippedPgFormulas {
  template <typename Real>
  static Real log_weight_in_mask(Real log_weight) {
    return log_weight;
  }
};

/// `MeanWeightOfMicrobatch`: weights are divided by the mean of their own pack.
struct MeanWeightOfMicrobatch : ClippedPgFormulas {
  template <class Objective>
  static double batch_mean_weight(const Objective& objective, const PackedBatch& batch) {
    const ShiftedBatch rows = shift_targets(batch);
    Denominators own;
    own.valid_tokens = std::count(rows.valid.begin(), rows.valid.end(), 1);
    std::set<std::int32_t> sequences;
    for (std::size_t t = 0; t < rows.rows(); ++t) {
      if (rows.valid[t] != 0) sequences.insert(rows.sequence[t]);
    }
    own.trained_sequences = static_cast<std::int64_t>(sequences.size());
    const std::int64_t count = objective.weights_of(own);
    return count == 0 ? 0 : objective.input_sum(batch) / static_cast<double>(count);
  }
};

/// `MeanWeightOfAllSequences`: the mean counts masked sequences and those without a target.
struct MeanWeightOfAllSequences : ClippedPgFormulas {
  template <class Objective>
  static double batch_mean_weight(const Objective& /*objective*/, const PackedBatch& batch) {
    return batch.input_sum / static_cast<double>(batch.denominators.all_sequences);
  }
};

const RegisteredMutant rejection_mutants[] = {
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
        .catalogue_id = "M175",
        .name = "weights_normalised_by_microbatch",
        .what = "importance weights are divided by the mean of their own microbatch",
        .strategy = "cp_local",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<MeanWeightOfMicrobatch>(
                  spec, [](const ClippedPgOptions& o) { return o.rollout_is_batch_normalize; });
            },
        .seen_in = "verl 0.9.1, in bypass mode",
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M176",
        .name = "weights_normalised_over_masked",
        .what = "the mean weight of sequences counts masked ones",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<MeanWeightOfAllSequences>(spec, [](const ClippedPgOptions& o) {
                return o.rollout_is_batch_normalize && o.weighs_sequences();
              });
            },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M177",
        .name = "vetoes_after_token_masks",
        .what = "token_masks_first: vetoes of tokens that are rejected by themselves do not count",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<VetoesAfterMasks>(spec, [](const ClippedPgOptions& o) {
                return o.token_masks_first && o.vetoes();
              });
            },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M172",
        .name = "lacking_weight_clamped",
        .what = "a generation log-probability that is not finite makes a weight of e^20",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<LackingWeightClamped>(spec, takes_lack);
            },
        .seen_in = "verl, SkyRL, by design",
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M173",
        .name = "lacking_weight_in_mask",
        .what = "seq-mask-tis: log weights that are not finite are in the mean of their sequence",
        .strategy = "cp_local",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<LackingWeightInMask>(spec, [](const ClippedPgOptions& o) {
                return o.zero_weights_nonfinite() && o.masks_sequences();
              });
            },
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
