// SPDX-License-Identifier: Apache-2.0
// `LogitGradient`: the true gradient of a loss by the logits z of one row. With F of V logits not
// -inf, target y and g, h, l, m = d loss / d (logprob, H, L, M) (row_terms.h):
// clang-format off
//   d ln p_y / dz_v = [v = y] - p_v          d H / dz_v = - p_v (ln p_v + H)
//   d L / dz_v      = p_v                    d M / dz_v = 1/V - p_v F/V,  0 where z_v is -inf
//   dz_v = g ([v = y] - p_v) + p_v (l - m F/V - h s_v) + m/V [z_v is not -inf],  s_v = ln p_v + H
// clang-format on
// All of them but d L / dz add up to 0 over a row.
//
// With k = l - m F/V - g, the derivative of dz_v by z_u, of constant g, h, l and m, is
// clang-format off
//   J_vu = [v = u] t_v - p_u (t_v - h p_v s_u),  t_v = p_v (k - h (1 + s_v))
// clang-format on
// (d p_v / dz_u = p_v ([v = u] - p_u), d ln p_v / dz_u = [v = u] - p_u, and dH / dz_u above).
#pragma once

#include <cstdint>
#include <span>

#include "harness/verify/truth/truth.h"

namespace lossgrid {

class LogitGradient {
 public:
  /// Takes the values of the intervals. The row is to outlive it.
  LogitGradient(const RowTruth& row, const RowGradientTruth& gradient);

  bool logprob_alone() const { return logprob_alone_; }
  double entropy() const { return entropy_; }  // h
  /// Returns the sum of dz over the row.
  double row_sum() const { return row_sum_; }

  /// Returns dz of the column with logit z and probability p.
  double at(double z, double p, bool is_target) const;

  /// Sets `out` to dz of vocab ids begin .. begin + z.size(). `out` may be `z` or `p`.
  void write(std::span<const double> z, std::span<const double> p, std::int64_t begin,
             std::span<double> out) const;

  /// Returns t of a column, which is the derivative of dz by the own logit but for terms in p^2.
  double own_slope(double z, double p) const;

  /// Returns sum over u of (J_vu e_u)^2 for the column v with logit z and probability p, whose own
  /// e is `error`. `roundings`: of the row.
  double squared_change(double z, double p, double error, const LogitRoundings& roundings) const;

 private:
  const RowTruth& row_;
  bool logprob_alone_;
  double logprob_;        // g
  double entropy_ = 0;    // h
  double factor_ = 0;     // l - m F/V
  double of_finite_ = 0;  // m/V
  double row_sum_ = 0;    // l
};

}  // namespace lossgrid
