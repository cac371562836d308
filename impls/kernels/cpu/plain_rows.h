// SPDX-License-Identifier: Apache-2.0
// Internal to the row kernels: work done once per row, and the kernels for float64 logits, which
// keep their precision up to the subtraction of the shift, as long as float32 can hold the shift
// (exact_distance_to_shift). The float64 kernels are for checks, not for speed.
#pragma once

#include <cmath>

#include "harness/device/kernel/portable.h"
#include "impls/kernels/rows.h"

namespace lossgrid {

/// Returns x - shift; the shift -inf of a shard with no other logits counts as 0.
inline float distance_to(float x, float shift) {
  return x - (std::isinf(shift) && shift < 0 ? 0.0f : shift);
}

/// Writes the statistics of a row that predicts nothing.
inline void write_nothing(const RowStatistics& out, std::int64_t r) {
  out.shift[r] = 0;
  out.sum[r] = 1;
  out.target[r] = 0;
  for (float* more : {out.weighted, out.min, out.total, out.finite, out.squares, out.beaten}) {
    if (more != nullptr) more[r] = 0;
  }
}

/// Target of a row in the columns of a shard. Made before the gradient is written, which may
/// overwrite the logits.
struct RowTarget {
  std::int64_t column = -1;  // -1: another shard owns it
  float rest = 0;            // 1 - p

  template <typename T>
  RowTarget(const LogitsRows& rows, std::int64_t r, const T* x, float shift, float sum) {
    if (!rows.shard.owns(rows.targets[r])) return;
    column = rows.targets[r] - rows.shard.begin;
    rest = 1.0f - std::exp(distance_to_shift(static_cast<double>(x[column]), shift)) / sum;
  }
};

/// Implement cpu_statistics and cpu_gradient for untransformed logits and the log-probability
/// alone.
void plain_statistics(const LogitsRows& rows, const RowStatistics& out);
void plain_gradient(const LogitsRows& rows, const float* shift, const float* sum, const float* grad,
                    void* out);

}  // namespace lossgrid
