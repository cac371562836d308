// SPDX-License-Identifier: Apache-2.0
#include "impls/kernels/cpu/plain_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lossgrid {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const double* row_of(const LogitsRows& rows, std::int64_t r) {
  return static_cast<const double*>(rows.data) + r * rows.shard.width;
}

}  // namespace

void plain_statistics(const LogitsRows& rows, const RowStatistics& out) {
  const std::int64_t columns = rows.shard.valid();
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    if (rows.targets[r] < 0) {
      write_nothing(out, r);
      continue;
    }
    const double* x = row_of(rows, r);
    double max = -kInfinity;
    double min = kInfinity;
    for (std::int64_t v = 0; v < columns; ++v) {
      max = std::max(max, x[v]);
      if (x[v] > -kInfinity) min = std::min(min, x[v]);
    }
    const float shift = to_float(max);
    double sum = 0;
    double weighted = 0;
    for (std::int64_t v = 0; v < columns; ++v) {
      if (std::isnan(x[v])) sum = x[v];  // std::max may skip a NaN
    }
    for (std::int64_t v = 0; v < columns && max > -kInfinity; ++v) {
      const double d = exact_distance_to_shift(x[v], shift);
      const double e = std::exp(d);
      sum += e;
      weighted += e > 0 ? e * d : 0.0;
    }
    out.shift[r] = shift;
    out.sum[r] = static_cast<float>(sum);
    const std::int64_t y = rows.targets[r];
    const float base = max > -kInfinity ? shift : 0.0f;
    out.target[r] = rows.shard.owns(y) ? distance_to_shift(x[y - rows.shard.begin], base) : 0.0f;
    if (out.weighted == nullptr) continue;
    out.weighted[r] = static_cast<float>(weighted);
    out.min[r] = to_float(min);
  }
}

void plain_gradient(const LogitsRows& rows, const float* shift, const float* sum, const float* grad,
                    void* out) {
  const std::int64_t columns = rows.shard.valid();
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    double* row = static_cast<double*>(out) + r * rows.shard.width;
    if (grad[r] == 0) {
      std::fill_n(row, rows.shard.width, 0.0);
      continue;
    }
    const double* x = row_of(rows, r);
    const RowTarget target(rows, r, x, shift[r], sum[r]);
    for (std::int64_t v = 0; v < columns; ++v) {
      const float p = std::exp(distance_to_shift(x[v], shift[r])) / sum[r];
      row[v] = -grad[r] * p;
    }
    if (target.column >= 0) row[target.column] = grad[r] * target.rest;
    std::fill(row + columns, row + rows.shard.width, 0.0);
  }
}

}  // namespace lossgrid
