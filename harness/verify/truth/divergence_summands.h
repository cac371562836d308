// SPDX-License-Identifier: Apache-2.0
// Sums over the columns of a row with the bounds of their errors, as divergence_truth.h has them.
// Of the sources beside it alone.
#pragma once

#include <algorithm>
#include <cmath>

#include "harness/core/dtype.h"
#include "harness/verify/truth/divergence_truth.h"
#include "harness/verify/truth/vanishing.h"

namespace lossgrid {

/// Four roundings of float32.
inline const double kU4 = 4 * unit_roundoff(DType::f32);

/// Returns size * x; 0 if one of them is 0, whatever the other.
inline double times(double size, double x) {
  return size == 0 || x == 0 ? 0 : size * x;
}

inline ChainBound sum_of(const ChainBound& a, const ChainBound& b) {
  return {a.fixed + b.fixed, a.per_add + b.per_add};
}

/// Adds w l to a sum, with its errors.
inline void add_summand(double w, double l, const ChainBound& w_error, const ChainBound& l_error,
                        double& sum, ChainBound& error) {
  if (w == 0) return;
  sum += w * l;
  if (std::isinf(l)) return;
  error.add(w * std::abs(l), w_error);
  error.add(w, l_error);
  error.fixed += w * kU4 * std::abs(l);
  error.fixed += std::min(w, kVanishingF32) * std::abs(l);
  error.per_add += w * std::abs(l) * unit_roundoff(DType::f32);
}

}  // namespace lossgrid
