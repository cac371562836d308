// SPDX-License-Identifier: Apache-2.0
// The pieces by which `clipped_pg` approximates log-probabilities of the proximal policy, the one
// before the current, on any real type, for the processor and for GPUs; RatioFormulas derives from
// them. A token was sampled by version v of the policy, with the log-probability q; the
// current one has version c and the log-probability x. With the share a = (c - 1 - v) / (c - v)
//
//   loglinear  q + a (x - q)
//   linear     log((1 - a) e^q + a e^x + 1e-10)
//
// without a gradient, after AReaL 1.0.4. A token of no version, or of none before c, has a = 0.
#pragma once

#include <cmath>

#include "harness/device/kernel/portable.h"
#include "impls/objectives/clipped_pg/clipped_pg_options.h"
#include "impls/objectives/clipped_pg/clipped_pg_token.h"
#include "impls/objectives/clipped_pg/slope.h"

namespace lossgrid {

struct ProximalFormulas {
  /// The share a of the current policy.
  template <typename Real>
  LOSSGRID_KERNEL static Real proximal_share(Real version, Real current) {
    if (version < 0 || version >= current) return Real(0);
    return (current - 1 - version) / (current - version);
  }

  /// The log-probability of the proximal policy.
  template <typename Real>
  LOSSGRID_KERNEL static Real proximal(ProximalPolicy method, Real x, Real q, Real share) {
    if (method == ProximalPolicy::loglinear) return q + share * (x - q);
    const auto little = static_cast<Real>(1e-10);
    return std::log((1 - share) * std::exp(q) + share * std::exp(x) + little);
  }

  /// True if selections of tokens go by the proximal policy that is approximated, which is not an
  /// input. On the host.
  static bool selects_by_proximal(const ClippedPgOptions& options) {
    return options.approximates_proximal();
  }

  /// The logarithm of the ratio of x to a policy without a gradient, in which x has `share`; slope
  /// by x.
  template <typename Real>
  LOSSGRID_KERNEL static Slope<Real> log_ratio(Real x, Real p, Real /*share*/) {
    return {x - p, Real(1)};
  }
};

/// Sets the previous policy of a token, which `version` has sampled, to the proximal one.
template <class Formulas, typename Real>
LOSSGRID_KERNEL void approximate_proximal(const ClippedPgOptions& options, Real version,
                                          PolicyToken<Real>& token) {
  token.share = Formulas::proximal_share(version, static_cast<Real>(*options.current_version));
  token.p = Formulas::proximal(options.prox_logp_method, token.x, token.q, token.share);
}

}  // namespace lossgrid
