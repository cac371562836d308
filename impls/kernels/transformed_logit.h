// SPDX-License-Identifier: Apache-2.0
// Maps of `RowTransform` for one logit: z of x and z' of z, in the precision of the logits. -inf
// stays -inf, and no finite logit becomes -inf, so that a mask by the lowest finite number remains
// a mask at any temperature. Plain data only: nvcc compiles this header.
#pragma once

#include "harness/device/kernel/portable.h"
#include "harness/problem/values/row_transform.h"

namespace lossgrid {

/// Returns a logit as an operand: arithmetic on bf16 is done in float32.
LOSSGRID_KERNEL float operand(bf16 x) {
  return to_float(x);
}
LOSSGRID_KERNEL float operand(float x) {
  return x;
}
LOSSGRID_KERNEL double operand(double x) {
  return x;
}

/// z = factor x; the identity for a factor of 1.
struct ScaledLogit {
  float factor = 1;

  LOSSGRID_KERNEL float z(float x) const {
    constexpr float kLowest = -3.4028234663852886e38f;
    const float product = factor * x;
    return product < kLowest && x >= kLowest ? kLowest : product;
  }
  LOSSGRID_KERNEL double z(double x) const { return factor * x; }

  template <typename Float>
  LOSSGRID_KERNEL Float slope(Float /*z*/) const {
    return factor;
  }
};

/// z = limit tanh(factor x / limit), z' = factor (1 - (z / limit)^2).
struct CappedLogit {
  float factor;
  float limit;

  template <typename Float>
  LOSSGRID_KERNEL Float z(Float x) const {
    return x == -infinity() ? x : limit * std::tanh(factor * x / limit);
  }
  template <typename Float>
  LOSSGRID_KERNEL Float slope(Float z) const {
    if (z == -infinity()) return 0;
    const Float of_limit = z / limit;
    return factor * ((1 - of_limit) * (1 + of_limit));
  }
};

/// ScaledLogit or CappedLogit, chosen for each logit, for code that has the maps of several rows at
/// once.
struct EitherLogit {
  RowTransform by;

  template <typename Float>
  LOSSGRID_KERNEL Float z(Float x) const {
    return by.limit == 0 ? ScaledLogit{by.factor}.z(x) : CappedLogit{by.factor, by.limit}.z(x);
  }
  template <typename Float>
  LOSSGRID_KERNEL Float slope(Float z) const {
    return by.limit == 0 ? static_cast<Float>(by.factor)
                         : CappedLogit{by.factor, by.limit}.slope(z);
  }
};

/// Calls f(map) with the map of row r; `transforms` is null for z = x.
template <typename F>
LOSSGRID_KERNEL void with_map_of_row(const RowTransform* transforms, std::int64_t r, F&& f) {
  const RowTransform row = transforms == nullptr ? RowTransform{} : transforms[r];
  if (row.limit == 0) {
    f(ScaledLogit{row.factor});
  } else {
    f(CappedLogit{row.factor, row.limit});
  }
}

}  // namespace lossgrid
