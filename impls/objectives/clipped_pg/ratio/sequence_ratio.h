// SPDX-License-Identifier: Apache-2.0
// The one ratio of a sequence, and the gradient that all its tokens have by it. On the host.
#pragma once

#include "impls/objectives/clipped_pg/policy/policy_losses.h"
#include "impls/objectives/clipped_pg/ratio/ratio_formulas.h"
#include "impls/objectives/clipped_pg/rejection/rejection_formulas.h"

namespace lossgrid {

/// Sets the ratio of a sequence whose tokens share one. `per_token`: 1 / its valid tokens, `share`:
/// of a token in the loss, `weight`: the importance weight that all tokens have, or 1.
template <class Formulas, typename Real>
void set_sequence_ratio(const ClippedPgOptions& options, const ClippedPgColumns& columns,
                        const SequenceRow<Real>& row, Real per_token, Real share, Real weight,
                        const SequenceKeeps<Real>& keeps) {
  const Slope<Real> log = Formulas::bounded_log(row.sum(columns.log_ratio) * per_token, options);
  const Real rho = Formulas::ratio(log.value);
  const TokenRatio<Real> ratio{{rho, 1}, Formulas::clipped(rho, options)};
  // The loss is linear in advantages of one sign: their sum stands for the tokens. Off-policy
  // masking drops the advantages that it may drop.
  const auto kept_slope = [&](int advantages, Real sign) {
    const PolicyToken<Real> tokens{.advantage = row.sum(advantages)};
    const Real slope = policy_term<Formulas>(options, columns, tokens, ratio, {}, Real(1)).slope;
    return (Formulas::is_maskable(sign) ? keeps.all * keeps.negative : keeps.all) * slope;
  };
  const Real by_ratio =
      kept_slope(columns.positive_advantages, 1) + kept_slope(columns.negative_advantages, -1);
  row.set(columns.ratio, rho);
  row.set(columns.ratio_slope, rho * log.slope);
  row.set(columns.ratio_gradient, share * weight * by_ratio * rho * log.slope * per_token);
}

}  // namespace lossgrid
