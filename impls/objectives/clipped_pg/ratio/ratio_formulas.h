// SPDX-License-Identifier: Apache-2.0
// The ratio of `clipped_pg` for one token, with derivatives by hand, on any real type, for the
// processor and for GPUs: its pieces (RatioFormulas), from which ClippedPgFormulas derives, and
// their combination. A clamp passes the gradient on its closed interval, as automatic
// differentiation does.
//
// Sources: PPO (Schulman et al., 2017), GSPO (Zheng et al., 2025), CISPO (MiniMax, 2025), NeMo-RL
// `ClippedPGLossFn`.
#pragma once

#include <algorithm>
#include <cmath>

#include "harness/device/kernel/portable.h"
#include "impls/objectives/clipped_pg/clipped_pg_columns.h"
#include "impls/objectives/clipped_pg/clipped_pg_options.h"
#include "impls/objectives/clipped_pg/clipped_pg_token.h"
#include "impls/objectives/clipped_pg/clipped_pg_totals.h"
#include "impls/objectives/clipped_pg/ratio/proximal_policy.h"
#include "impls/objectives/clipped_pg/slope.h"

namespace lossgrid {

struct RatioFormulas : ProximalFormulas {
  /// rho of one token by x - prev, or of a sequence by the mean of it; its slope is itself.
  template <typename Real>
  LOSSGRID_KERNEL static Real ratio(Real log_ratio) {
    return std::exp(log_ratio);
  }

  /// The logarithm of a ratio within its bounds; slope by it.
  template <typename Real>
  LOSSGRID_KERNEL static Slope<Real> bounded_log(Real log_ratio, const ClippedPgOptions& options) {
    const auto& low = options.log_ratio_min;
    const auto& high = options.log_ratio_max;
    if (low && log_ratio < static_cast<Real>(*low)) return {static_cast<Real>(*low), Real(0)};
    if (high && log_ratio > static_cast<Real>(*high)) return {static_cast<Real>(*high), Real(0)};
    return {log_ratio, Real(1)};
  }

  /// rho within the clip bounds; slope by rho.
  template <typename Real>
  LOSSGRID_KERNEL static Slope<Real> clipped(Real rho, const ClippedPgOptions& options) {
    const auto low = static_cast<Real>(options.lowest_ratio());
    const auto high = static_cast<Real>(options.highest_ratio());
    return {std::clamp(rho, low, high), low <= rho && rho <= high ? Real(1) : Real(0)};
  }
};

/// The ratio that multiplies the advantage, slope by x, and the clipped one, slope by the ratio.
template <typename Real>
struct TokenRatio {
  Slope<Real> free;
  Slope<Real> clipped;
};

/// Returns the logarithm of a token's ratio; slope by x.
template <class Formulas, typename Real>
LOSSGRID_KERNEL Slope<Real> token_log_ratio(const PolicyToken<Real>& token) {
  return Formulas::log_ratio(token.x, token.anchor, token.share);
}

/// Returns the logarithm of a token's ratio in the sum of its sequence; slope by x.
template <class Formulas, typename Real>
LOSSGRID_KERNEL Slope<Real> log_ratio_in_sum(const ClippedPgOptions& options,
                                             const PolicyToken<Real>& token) {
  const Slope<Real> log = token_log_ratio<Formulas>(token);
  if (options.sequence_ratio()) return log;
  const Slope<Real> bounded = Formulas::bounded_log(log.value, options);
  if (!options.is_geo_mean()) return {bounded.value, bounded.slope * log.slope};
  const Slope<Real> clipped = Formulas::one_sided_log(bounded.value, token.advantage, options);
  return {clipped.value, clipped.slope * bounded.slope * log.slope};
}

/// Returns the ratio of a token, or the number that stands in its place.
template <class Formulas, typename Real>
LOSSGRID_KERNEL TokenRatio<Real> token_ratio(const ClippedPgOptions& options,
                                             const ClippedPgColumns& columns,
                                             const PolicyToken<Real>& token,
                                             const SequenceCoefficients<Real>& sequence) {
  if (options.force_on_policy_ratio) return {{1, 1}, {1, 1}};
  if (options.disable_ppo_ratio) return {{token.x, 1}, {token.x, 1}};
  if (options.is_geo_mean()) {
    const Real rho = sequence.at(columns.ratio);
    return {{rho, rho * log_ratio_in_sum<Formulas>(options, token).slope}, {rho, 1}};
  }
  if (options.sequence_ratio()) {
    const Real rho = sequence.at(columns.ratio);
    // Unless the slope is the token's own, the gradient stands in the coefficients.
    return {{rho, sequence.at(columns.ratio_slope, 0)}, Formulas::clipped(rho, options)};
  }
  const Slope<Real> log = token_log_ratio<Formulas>(token);
  const Slope<Real> bounded = Formulas::bounded_log(log.value, options);
  const Real rho = Formulas::ratio(bounded.value);
  return {{rho, rho * bounded.slope * log.slope}, Formulas::clipped(rho, options)};
}

/// Adds the ratios of a token to the totals.
template <typename Real>
LOSSGRID_KERNEL void add_ratio_metrics(const TokenRatio<Real>& ratio, double* sums,
                                       double* maxima) {
  using T = ClippedPgTotals;
  sums[T::kRatio] += ratio.free.value;
  sums[T::kRatioClamped] += ratio.clipped.value;
  raise_to(maxima[T::kMaxRatio], ratio.free.value);
  raise_to(maxima[T::kMaxMinusRatio], -ratio.free.value);
  raise_to(maxima[T::kMaxRatioClamped], ratio.clipped.value);
  raise_to(maxima[T::kMaxMinusRatioClamped], -ratio.clipped.value);
}

}  // namespace lossgrid
