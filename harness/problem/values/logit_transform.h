// SPDX-License-Identifier: Apache-2.0
// `LogitTransform`: the map of a model's logits x to those that the softmax is of,
//   z = c tanh(s x / c) / (T T_i),  or  z = s x / (T T_i) without a soft-cap,
// with logit scale s, soft-cap c, temperature T, and T_i of the sequence where there are
// temperatures by sequence. Losses, log-probabilities and all statistics are about z, gradients are
// by x. A logit of -inf stays -inf: it has no probability.
#pragma once

#include <memory>
#include <vector>

#include "harness/problem/values/logits_source.h"
#include "harness/problem/values/row_transform.h"

namespace lossgrid {

struct LogitTransform {
  double scale = 1;
  double softcap = 0;  // 0: none
  double temperature = 1;
  bool by_sequence = false;  // there are T_i

  /// True if z = x in every row.
  bool is_identity() const { return *this == LogitTransform(); }
  /// True if z = (s / T) x in every row.
  bool is_one_factor() const { return softcap == 0 && !by_sequence; }
  friend bool operator==(const LogitTransform&, const LogitTransform&) = default;
};

/// Returns the part that acts on rows of logits. From hidden states one factor is not of it: a
/// product with the weight takes it in.
LogitTransform transform_of_rows(const LogitTransform& transform, bool from_hidden);

/// Returns the part that acts on the logits of a teacher: the temperatures.
LogitTransform teacher_part(const LogitTransform& transform);

/// Returns what divides the product of hidden states and weight: T / s where that is the whole
/// transform, else 1.
double divisor_of_product(const LogitTransform& transform);

/// The transform of one row, in float64: z = limit tanh(factor x / limit), or factor x (limit 0).
struct TrueRowTransform {
  double factor = 1;
  double limit = 0;

  /// Returns z; a number that is not finite stays itself.
  double apply(double x) const;
  /// Returns dz / dx at a logit whose transform is z: factor (1 - (z / limit)^2), 0 at -inf below a
  /// limit.
  double slope(double z) const;
  /// Returns the error bound of the slope of a float32 implementation that has z up to `error`.
  double slope_error(double z, double error) const;
  RowTransform as_float() const;
};

/// Returns the transform of a row in a sequence with temperature T_i; 1 where there are none.
TrueRowTransform row_transform(const LogitTransform& transform, double sequence_temperature);

/// Relative error of z beside that of x: of at most eight float32 roundings, in a soft-cap that
/// multiplies, divides, takes a tanh within two units, multiplies and divides; of three without.
double transform_error(const LogitTransform& transform);

/// Returns z of the logits of `source`. `temperatures` [T]: T_i by token, or empty. Its values are
/// made by implementations, not given: the error of z is at most
///   factor (error of x) + transform_error |z| + f (1 + factor + limit + 1 / (T T_i)),
/// with the factor and limit of TrueRowTransform: below the smallest normal float32 f, x may be
/// read as 0, and so may s x, the argument of the tanh, which the limit multiplies, and z.
std::shared_ptr<const LogitsSource> make_transformed_logits(
    std::shared_ptr<const LogitsSource> source, const LogitTransform& transform,
    std::vector<float> temperatures);

}  // namespace lossgrid
