// SPDX-License-Identifier: Apache-2.0
// Mutants of objectives: another formula, option or pair than the case asks for; and one control,
// the right formulas in float32.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "impls/mutants/mutant.h"
#include "impls/objectives/clipped_pg/clipped_pg.h"
#include "impls/objectives/clipped_pg/wrong_formulas.h"
#include "impls/objectives/pairs/dpo.h"

namespace lossgrid {
namespace {

/// Returns clipped_pg with other options; null if `change` returns false.
std::unique_ptr<Objective> with_options(const ObjectiveSpec& spec,
                                        bool (*change)(ClippedPgOptions&)) {
  if (spec.kind != "clipped_pg") return nullptr;
  ClippedPgOptions options = ClippedPgOptions::from(spec.options);
  if (!change(options)) return nullptr;
  return std::make_unique<ClippedPgObjective<>>(options);
}

bool always(const ClippedPgOptions&) {
  return true;
}

struct TiesDouble : ClippedPgFormulas {
  template <typename Real>
  static Real larger_share(Real a, Real b) {
    return a >= b ? Real(1) : Real(0);
  }
};

struct TiesVanish : ClippedPgFormulas {
  template <typename Real>
  static Real larger_share(Real a, Real b) {
    return a > b ? Real(1) : Real(0);
  }
};

struct NoScoreGradient : ClippedPgFormulas {
  template <typename Real>
  static Slope<Real> kl_weight(Real x, Real q, const ClippedPgOptions& options) {
    return {ClippedPgFormulas::kl_weight(x, q, options).value, Real(0)};
  }
};

/// `RatioClamped`: bounds the exponent "for stability", as frameworks do.
struct RatioClamped : ClippedPgFormulas {
  template <typename Real>
  static Real ratio(Real log_ratio) {
    return std::exp(std::clamp(log_ratio, Real(-20), Real(20)));
  }
};

bool has_token_ratios(const ClippedPgOptions& options) {
  return !options.force_on_policy_ratio && !options.disable_ppo_ratio && !options.sequence_ratio();
}

struct DualClipEverywhere : ClippedPgFormulas {
  template <typename Real>
  static bool dual_clip_applies(Real) {
    return true;
  }
};

/// `BroadcastWeights`: [S, 1] weights against a mask of [S], so that every weight is counted for
/// every sequence.
struct BroadcastWeights : ClippedPgFormulas {
  static double mean_sequence_weight(std::span<const double> weights,
                                     std::span<const std::uint8_t> mask,
                                     std::int64_t valid_sequences) {
    const double masked = std::accumulate(mask.begin(), mask.end(), 0.0);
    return std::accumulate(weights.begin(), weights.end(), 0.0) * masked /
           static_cast<double>(valid_sequences);
  }
};

bool clip_bounds_swapped(ClippedPgOptions& options) {
  std::swap(options.ratio_clip_min, options.ratio_clip_max);
  return options.clips() && options.ratio_clip_min != options.ratio_clip_max;
}

/// `PairsOfSorted`: pairs of neighbours after the pack has been sorted by length.
struct PairsOfSorted : DpoFormulas {
  static std::int64_t partner(const PackedBatch& batch, std::int64_t i) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(batch.sequences()));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return batch.length(a) > batch.length(b);
    });
    // The chosen keep their order and the rejected keep theirs.
    std::vector<std::int64_t> chosen;
    std::vector<std::int64_t> rejected;
    for (const std::int64_t k : order) (is_chosen(k) ? chosen : rejected).push_back(k);
    const std::vector<std::int64_t>& own = is_chosen(i) ? chosen : rejected;
    const std::vector<std::int64_t>& other = is_chosen(i) ? rejected : chosen;
    return other[static_cast<std::size_t>(std::find(own.begin(), own.end(), i) - own.begin())];
  }
};

const RegisteredMutant objective_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M44",
        .name = "ties_double",
        .what = "both sides of a tie get the whole gradient",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& spec) { return with_formulas<TiesDouble>(spec, always); },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M44",
        .name = "ties_vanish",
        .what = "no side of a tie gets a gradient",
        .strategy = "cp_local",
        .objective =
            [](const ObjectiveSpec& spec) { return with_formulas<TiesVanish>(spec, always); },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M45",
        .name = "kl_without_score",
        .what = "the KL term lacks its score gradient",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<NoScoreGradient>(
                  spec, [](const ClippedPgOptions& o) { return o.kl_penalty() != 0; });
            },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .name = "ratio_clamped",
        .what = "the logarithm of a ratio is clamped at +-20",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<RatioClamped>(spec, has_token_ratios);
            },
        .seen_in = "SkyRL, verl, by design",
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .name = "dual_clip_everywhere",
        .what = "the dual clip bounds positive advantages too",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<DualClipEverywhere>(
                  spec, [](const ClippedPgOptions& o) { return o.ratio_clip_c.has_value(); });
            },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .name = "weights_broadcast",
        .what = "[S, 1] weights against an [S] mask in a metric",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<BroadcastWeights>(spec, [](const ClippedPgOptions& o) {
                return o.sequence_level_importance_ratios;
              });
            },
        .seen_in = "NeMo-RL, `sampling_importance_ratio`",
        .rejected_by = "metric.sampling_importance_ratio",
    }),
    RegisteredMutant({
        .name = "clip_bounds_swapped",
        .what = "ratio_clip_min and ratio_clip_max swapped",
        .strategy = "cp_local",
        .objective =
            [](const ObjectiveSpec& spec) { return with_options(spec, clip_bounds_swapped); },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .name = "pairs_crossed",
        .what = "pairs of the pack sorted by length",
        .strategy = "fused",
        .objective = [](const ObjectiveSpec& spec) -> std::unique_ptr<Objective> {
          if (spec.kind != "dpo") return nullptr;
          return std::make_unique<DpoObjective<PairsOfSorted>>(read_dpo_options(spec.options));
        },
        .seen_in = "AReaL 1.0.4, reward model",
        .rejected_by = "loss",
    }),
};

const RegisteredControl control{{
    .name = "float32_objective",
    .what = "per-token arithmetic of clipped_pg in float32",
    .strategy = "fused",
    .objective =
        [](const ObjectiveSpec& spec) {
          return with_formulas<ClippedPgFormulas, float>(spec, always);
        },
}};

}  // namespace
}  // namespace lossgrid
