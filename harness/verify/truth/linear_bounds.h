// SPDX-License-Identifier: Apache-2.0
// Error bound of an element of the gradient of hidden states or weight, from the numbers of
// linear_truth.h. u32 = 2^-24; u_out and u_g are the roundoffs of the gradient's dtype and of the
// dtype in which the gradient of logits dz enters the products. The bound is the sum of these
// lines:
// clang-format off
//   K (u_out |want| + u_g spread)
//     rounding of the result and of its dz: independent roundings combine as the root of their
//     squares, of which K = 3 bounds the largest of many elements;
//   + |rounded - want|, if dz enters in bf16
//     rounding of every dz to nearest: equal dz (a common d loss / d logprob, near-uniform
//     probabilities) round the same way, and those roundings add up;
//   + u32 (4 (magnitude + |before|) + 3 (sqrt(n + adds) (spread + |want|) + sqrt(adds) |before|))
//     n products and their sum in float32, in any order: every addition rounds by up to u32 times
//     the sum so far, at random (Higham and Mary, "A new approach to probabilistic rounding error
//     analysis", 2019). That sum is about sqrt(k) for products of random signs, up to |want| for
//     products that share a sign, the largest product where one dominates: in all up to
//     0.6 sqrt(n) u32 (spread + |want|), and the largest of many elements is within five of these
//     deviations. A buffer that held `before` and is added to `adds` times is rounded as often;
//   + radius
//     error of every dz, in one direction, by float32 logits, statistics and d loss / d logprob;
//     The roundings above are of what is computed, which the radius is a part of: it counts with
//     K (u_out + u_g + u_part sqrt(parts)) + u32 (4 + 3 sqrt(n + adds)) of itself besides. Where a
//     row may be on the other side of a switch, the radius is as large as |want|, or |want| is 0;
//   + K logit_rounding, for logits that are declared to be rounded;
//   + K u_part sqrt(parts) (spread + |want|), for more than one part of d weight that are declared
//     to be rounded, each with the sum so far.
// clang-format on
// A single part of d weight that is declared to be rounded is rounded once, by u_out of the number
// itself at most: then K and u_out |want| do not multiply. A sum that is rounded after every chunk
// is off by the roundings of its parts besides, which such an element does not hide.
//
// The L2 error of a block of rows is held to the same lines without K, added up as squares. Errors
// of one rounding are at most u |x| and spread evenly below that: their mean square is
// (u x)^2 / 3 at most, and the mean square of n independent ones is within three deviations of
// that, 3 sqrt(2 / n). Where d weight is rounded once, the block is held to this smaller number,
// with the effective number of its rows as n. To all bounds twice the smallest normal float32 is
// added, times max(1, largest |d loss / d logprob|), or the size of bounds.h with row terms; each
// of the n products may be below it, too, and counts in the radius.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "harness/core/dtype.h"
#include "harness/verify/truth/bounds.h"
#include "harness/verify/truth/declared_roundings.h"
#include "harness/verify/truth/linear_truth.h"

namespace lossgrid {

/// The bound of one gradient; its lines have functions of their own.
class LinearBound {
 public:
  LinearBound(const Truth& truth, DType out, DType grad_logits, std::int64_t adds)
      : u_out_(unit_roundoff(out)),
        u_grad_logits_(unit_roundoff(grad_logits)),
        adds_(static_cast<double>(adds)),
        from_bf16_(grad_logits == DType::bf16) {
    double largest = 1;
    const auto rows = static_cast<std::int64_t>(truth.objective.grad_logprob.size());
    for (std::int64_t t = 0; t < rows; ++t) {
      const RowGradientTruth gradient = truth.objective.gradient(t);
      largest =
          std::max(largest, gradient.logprob_alone() ? std::abs(gradient.logprob.value)
                                                     : gradient_size(truth.rows[t], gradient));
    }
    floor_ = kVanishingF32 * largest;
  }

  static LinearBound of_weight(const Truth& truth, const DeclaredRoundings& declared) {
    LinearBound bound(truth, declared.weight_sum, declared.grad_logits, declared.weight_adds);
    if (declared.weight_part == DType::f32) return bound;
    if (declared.weight_parts > 1) {
      bound.u_parts_ = unit_roundoff(declared.weight_part) *
                       std::sqrt(static_cast<double>(declared.weight_parts));
    }
    bound.is_rounded_once_ = declared.weight_parts == 1;
    return bound;
  }

  /// Returns the truth after the known roundings of dz.
  double baseline(const LinearRows& rows, std::size_t at) const {
    return from_bf16_ && !rows.rounded.empty() ? rows.rounded[at] : rows.want[at];
  }

  /// Returns the root of the sum of squares of the roundings of dz.
  double grad_logits(const LinearRows& rows, std::size_t at) const {
    return u_grad_logits_ * rows.spread[at];
  }

  /// Returns the line of products and their sum in float32.
  double products(const LinearRows& rows, std::size_t at, double before) const {
    const double sums = std::sqrt(static_cast<double>(rows.terms) + adds_) *
                            (rows.spread[at] + std::abs(rows.want[at])) +
                        std::sqrt(adds_) * std::abs(before);
    return unit_roundoff(DType::f32) * (4 * (rows.magnitude[at] + std::abs(before)) + 3 * sums);
  }

  /// Returns the line of the radius.
  double radius(const LinearRows& rows, std::size_t at) const {
    const double of_sum = 4 + 3 * std::sqrt(static_cast<double>(rows.terms) + adds_);
    return rows.radius[at] * (1 + kDeviations * (u_out_ + u_grad_logits_ + u_parts_) +
                              unit_roundoff(DType::f32) * of_sum);
  }

  /// Returns the error by roundings of logits; that of one logit changes all elements of a row.
  double logits(const LinearRows& rows, std::size_t at) const {
    return rows.logit_rounding.empty() ? 0 : rows.logit_rounding[at];
  }

  /// Returns the error by roundings of parts that are added up.
  double parts(const LinearRows& rows, std::size_t at) const {
    return u_parts_ * (rows.spread[at] + std::abs(rows.want[at]));
  }

  /// True if the result is a single rounding of a float32 number.
  bool is_rounded_once() const { return is_rounded_once_; }

  /// Returns the mean square of the roundings of a result that is rounded once, at most.
  double mean_square_rounding(const LinearRows& rows, std::size_t at, double want) const {
    const double of_result = u_out_ * want;
    const double of_dz = grad_logits(rows, at);
    return (of_result * of_result + of_dz * of_dz) / 3;
  }

  /// Returns the number under which all numbers may vanish.
  double floor() const { return floor_; }

  /// Returns the lines with K, without it: errors that are independent between elements.
  double independent(const LinearRows& rows, std::size_t at, double want) const {
    return u_out_ * std::abs(want) + grad_logits(rows, at) + parts(rows, at);
  }

  /// Returns the sum of the other lines.
  double common(const LinearRows& rows, std::size_t at, double before) const {
    return floor_ + std::abs(baseline(rows, at) - rows.want[at]) + products(rows, at, before) +
           radius(rows, at) + kDeviations * logits(rows, at);
  }

  /// Returns the bound around `want`: the truth, or the result of another program.
  double element(const LinearRows& rows, std::size_t at, double want, double before) const {
    if (!is_rounded_once_) {
      return kDeviations * independent(rows, at, want) + common(rows, at, before);
    }
    const double before_rounding = kDeviations * grad_logits(rows, at) + common(rows, at, before);
    return u_out_ * std::abs(want) + (1 + u_out_) * before_rounding;
  }

 private:
  static constexpr double kDeviations = 3;

  double u_out_;
  double u_grad_logits_;
  double adds_;
  double u_parts_ = 0;  // of all parts together
  bool is_rounded_once_ = false;
  bool from_bf16_;
  double floor_;
};

}  // namespace lossgrid
