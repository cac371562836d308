// SPDX-License-Identifier: Apache-2.0
// The importance weights of `clipped_pg` for one token or sequence, on any real type, for the
// processor and for GPUs: their pieces (WeightFormulas), from which ClippedPgFormulas derives, and
// their combinations. Weights have no gradient.
//
// Source: NeMo-RL `ClippedPGLossFn`.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "harness/device/kernel/portable.h"
#include "impls/objectives/clipped_pg/aggregation/aggregation.h"
#include "impls/objectives/clipped_pg/clipped_pg_columns.h"
#include "impls/objectives/clipped_pg/clipped_pg_options.h"
#include "impls/objectives/clipped_pg/clipped_pg_token.h"
#include "impls/objectives/clipped_pg/clipped_pg_totals.h"

namespace lossgrid {

struct WeightFormulas {
  /// exp(x), or 0 where that is not a finite float32.
  template <typename Real>
  LOSSGRID_KERNEL static Real finite_exp(Real x) {
    const Real result = std::exp(x);
    return result <= static_cast<Real>(std::numeric_limits<float>::max()) ? result : Real(0);
  }

  /// True for a number that is neither infinite nor NaN in float32.
  template <typename Real>
  LOSSGRID_KERNEL static bool is_finite(Real x) {
    return std::abs(x) <= static_cast<Real>(std::numeric_limits<float>::max());
  }

  /// The log weight of a token in the mean of its sequence that decides on a mask: 0 where it is
  /// not finite.
  template <typename Real>
  LOSSGRID_KERNEL static Real log_weight_in_mask(Real log_weight) {
    return is_finite(log_weight) ? log_weight : Real(0);
  }

  /// True if an importance weight, or the mean one of a sequence, lies outside of its bounds.
  template <typename Real>
  LOSSGRID_KERNEL static bool out_of_bounds(Real weight, const ClippedPgOptions& options) {
    const auto& low = options.truncated_importance_sampling_ratio_min;
    return weight > static_cast<Real>(*options.truncated_importance_sampling_ratio) ||
           (low && weight < static_cast<Real>(*low));
  }

  /// Returns the importance weight w after tis or icepop.
  template <typename Real>
  LOSSGRID_KERNEL static Real truncated(Real weight, const ClippedPgOptions& options) {
    switch (options.truncated_importance_sampling_type) {
      case Truncation::tis:
        return std::clamp(
            weight, static_cast<Real>(options.truncated_importance_sampling_ratio_min.value_or(0)),
            static_cast<Real>(*options.truncated_importance_sampling_ratio));
      case Truncation::icepop:
        return out_of_bounds(weight, options) ? Real(0) : weight;
      default:
        return weight;
    }
  }

  /// Mean importance weight of the global batch, of tokens or of sequences with a valid token. On
  /// the host.
  template <class Objective, class Batch>
  static double batch_mean_weight(const Objective& objective, const Batch& batch) {
    return batch.input_sum / static_cast<double>(objective.weights_of(batch.denominators));
  }

  /// Mean importance weight over the sequences that count: `weights` and `mask` [S].
  static double mean_sequence_weight(std::span<const double> weights,
                                     std::span<const std::uint8_t> mask,
                                     std::int64_t valid_sequences) {
    double sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (mask[i] != 0) sum += weights[i];
    }
    return sum / static_cast<double>(valid_sequences);
  }
};

/// An importance weight of a token or sequence as it counts.
template <typename Real>
struct ImportanceWeight {
  Real value;
  bool is_out_of_bounds;
};

/// Returns an importance weight within its bounds.
template <class Formulas, typename Real>
LOSSGRID_KERNEL ImportanceWeight<Real> bounded_weight(const ClippedPgOptions& options,
                                                      Real weight) {
  return {Formulas::truncated(weight, options),
          options.truncates() && Formulas::out_of_bounds(weight, options)};
}

/// Returns the importance weight of a token with this log weight, unless its sequence has one.
template <class Formulas, typename Real>
LOSSGRID_KERNEL ImportanceWeight<Real> own_weight(const ClippedPgOptions& options,
                                                  Real log_weight) {
  return bounded_weight<Formulas>(options, Formulas::finite_exp(log_weight));
}

/// Returns the importance weight of a token.
template <class Formulas, typename Real>
LOSSGRID_KERNEL ImportanceWeight<Real> token_weight(const ClippedPgOptions& options,
                                                    const ClippedPgColumns& columns,
                                                    const PolicyToken<Real>& token,
                                                    const SequenceCoefficients<Real>& sequence) {
  if (options.weighs_sequences()) return {sequence.at(columns.weight), false};
  if (!options.masks_sequences()) return own_weight<Formulas>(options, token.log_weight());
  const Real weight = Formulas::finite_exp(token.log_weight());
  return {weight * sequence.at(columns.weight), false};
}

/// Returns the factor of an importance weight in the loss; `scale`: of all weights.
template <typename Real>
LOSSGRID_KERNEL Real weight_in_loss(const ClippedPgOptions& options, Real scale,
                                    const ImportanceWeight<Real>& weight) {
  return options.use_importance_sampling_correction ? scale * weight.value : Real(1);
}

/// Returns the weight of a token's advantage in the sums of its sequence, unless that has one
/// weight.
template <class Formulas, typename Real>
LOSSGRID_KERNEL Real own_factor(const ClippedPgOptions& options, Real scale, Real log_weight) {
  if (options.weighs_sequences()) return 1;
  return weight_in_loss(options, scale, own_weight<Formulas>(options, log_weight));
}

/// Adds the importance weight of a token to the totals.
template <typename Real>
LOSSGRID_KERNEL void add_weight_metrics(const ImportanceWeight<Real>& weight, double* sums) {
  sums[ClippedPgTotals::kWeight] += weight.value;
  sums[ClippedPgTotals::kOutOfBounds] += weight.is_out_of_bounds ? 1 : 0;
}

/// Returns the weight that the tokens of a sequence share, by its sums. On the host.
template <class Formulas, typename Real>
ImportanceWeight<Real> sequence_weight(const ClippedPgOptions& options,
                                       const ClippedPgColumns& columns,
                                       const SequenceRow<Real>& row) {
  const Real count = row.sum(columns.kept >= 0 ? columns.kept : columns.tokens);
  const Real sum = row.sum(columns.log_weight);
  const Real mean = sum * inverse_or_0<Real>(static_cast<std::int64_t>(count));
  if (options.masks_sequences()) {
    const bool is_masked = Formulas::out_of_bounds(std::exp(mean), options);
    return {is_masked ? Real(0) : Real(1), is_masked};
  }
  return own_weight<Formulas>(options, options.rollout_is == WeightLevel::geometric ? mean : sum);
}

}  // namespace lossgrid
