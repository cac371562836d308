// SPDX-License-Identifier: Apache-2.0
// The rejection of tokens and sequences by `clipped_pg`, on any real type, for the processor and
// for GPUs: its pieces (RejectionFormulas), from which ClippedPgFormulas derives, and their
// combinations. Rules have no gradient.
#pragma once

#include <cmath>
#include <cstdint>

#include "harness/device/kernel/portable.h"
#include "impls/objectives/clipped_pg/aggregation/aggregation.h"
#include "impls/objectives/clipped_pg/clipped_pg_columns.h"
#include "impls/objectives/clipped_pg/clipped_pg_options.h"
#include "impls/objectives/clipped_pg/clipped_pg_token.h"
#include "impls/objectives/clipped_pg/weights/weight_formulas.h"

namespace lossgrid {

struct RejectionFormulas {
  /// True if a token with this log weight has a part in the sums and means that reject sequences.
  template <typename Real>
  LOSSGRID_KERNEL static bool has_part(Real log_weight) {
    return WeightFormulas::is_finite(log_weight);
  }

  /// Number by which a token with this log weight is rejected.
  template <typename Real>
  LOSSGRID_KERNEL static Real rejection_number(Real log_weight, RejectionStatistic statistic) {
    if (statistic == RejectionStatistic::k1) return log_weight;
    if (statistic == RejectionStatistic::k2) return log_weight * log_weight / 2;
    return std::expm1(log_weight) - log_weight;
  }

  /// True if this number, or a sum or mean of such ones, rejects.
  template <typename Real>
  LOSSGRID_KERNEL static bool is_rejected(Real number, const ClippedPgOptions& options) {
    const auto high = static_cast<Real>(*options.rollout_rs_threshold);
    if (options.rejection_statistic != RejectionStatistic::k1) return number > high;
    const auto& low = options.rollout_rs_threshold_min;
    return number > std::log(high) || (low && number < std::log(static_cast<Real>(*low)));
  }

  /// True if a token may take its sequence with it, also one that is rejected by itself: vetoes
  /// come before all other masks.
  LOSSGRID_KERNEL static bool may_veto(bool /*is_kept*/, const ClippedPgOptions& /*options*/) {
    return true;
  }

  /// True if a token with this log weight takes its sequence with it.
  template <typename Real>
  LOSSGRID_KERNEL static bool vetoes(Real log_weight, const ClippedPgOptions& options) {
    const auto& low = options.veto_ratio_min;
    const auto& high = options.veto_ratio_max;
    return (low && log_weight < std::log(static_cast<Real>(*low))) ||
           (high && log_weight > std::log(static_cast<Real>(*high)));
  }

  /// Returns the amount that a token adds to the number by which its sequence is rejected; under
  /// sequence_max 1 if it is beyond the threshold, else 0.
  template <typename Real>
  LOSSGRID_KERNEL static Real rejection_term(Real log_weight, const ClippedPgOptions& options) {
    const Real number = rejection_number(log_weight, options.rejection_statistic);
    if (options.rejection_level != RejectionLevel::sequence_max) return number;
    return is_rejected(number, options) ? Real(1) : Real(0);
  }

  /// True if a sequence is rejected. On the host.
  template <typename Real>
  static bool rejects_sequence(Real sum, Real mean, const ClippedPgOptions& options) {
    switch (options.rejection_level) {
      case RejectionLevel::sequence_sum:
        return is_rejected(sum, options);
      case RejectionLevel::sequence_mean:
        return is_rejected(mean, options);
      case RejectionLevel::sequence_max:
        return sum > 0;
      default:
        return false;
    }
  }

  /// True if off-policy masking may drop a token with this advantage.
  template <typename Real>
  LOSSGRID_KERNEL static bool is_maskable(Real advantage) {
    return advantage < 0;
  }
};

/// False for the log weight of a token without a generation log-probability, which rules of
/// rejection ignore.
template <class Formulas, typename Real>
LOSSGRID_KERNEL bool takes_part(const ClippedPgOptions& options, Real log_weight) {
  return !options.zero_weights_nonfinite() || Formulas::has_part(log_weight);
}

/// True if a token is rejected by its own log weight.
template <class Formulas, typename Real>
LOSSGRID_KERNEL bool is_rejected_alone(const ClippedPgOptions& options, Real log_weight) {
  if (options.rejection_level != RejectionLevel::token) return false;
  if (!takes_part<Formulas>(options, log_weight)) return false;
  const Real number = Formulas::rejection_number(log_weight, options.rejection_statistic);
  return Formulas::is_rejected(number, options);
}

/// Returns 1 for a token that keeps its policy term, else 0.
template <class Formulas, typename Real>
LOSSGRID_KERNEL Real kept_by_rejection(const ClippedPgOptions& options,
                                       const ClippedPgColumns& columns,
                                       const PolicyToken<Real>& token,
                                       const SequenceCoefficients<Real>& sequence) {
  if (is_rejected_alone<Formulas>(options, token.log_weight())) return 0;
  const Real keep = sequence.at(columns.keep, 1);
  return Formulas::is_maskable(token.advantage) ? keep * sequence.at(columns.keep_negative, 1)
                                                : keep;
}

/// Factors of the policy terms of a sequence, 1 or 0: of all tokens, and once more of those that
/// off-policy masking may drop.
template <typename Real>
struct SequenceKeeps {
  Real all;
  Real negative;
};

/// Sets what a sequence keeps, by its sums. `per_token`: 1 / its valid tokens. On the host.
template <class Formulas, typename Real>
SequenceKeeps<Real> set_sequence_keeps(const ClippedPgOptions& options,
                                       const ClippedPgColumns& columns,
                                       const SequenceRow<Real>& row, Real per_token) {
  const Real per_kept = columns.kept < 0
                            ? per_token
                            : inverse_or_0<Real>(static_cast<std::int64_t>(row.sum(columns.kept)));
  const Real rejection = row.sum(columns.rejection);
  const bool is_rejected = Formulas::rejects_sequence(rejection, rejection * per_kept, options) ||
                           row.sum(columns.vetoes) > 0;
  const bool is_off_policy = options.off_policy_mask_threshold &&
                             row.sum(columns.behaviour) * per_token >
                                 static_cast<Real>(*options.off_policy_mask_threshold);
  const SequenceKeeps<Real> keeps{is_rejected ? Real(0) : Real(1),
                                  is_off_policy ? Real(0) : Real(1)};
  row.set(columns.keep, keeps.all);
  row.set(columns.keep_negative, keeps.negative);
  return keeps;
}

}  // namespace lossgrid
