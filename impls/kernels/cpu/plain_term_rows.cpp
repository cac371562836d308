// SPDX-License-Identifier: Apache-2.0
#include "impls/kernels/cpu/plain_term_rows.h"

#include <algorithm>
#include <limits>

#include "impls/kernels/cpu/plain_rows.h"
#include "impls/kernels/kept_columns.h"
#include "impls/kernels/transformed_logit.h"

namespace lossgrid {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Returns z of the columns of a row; -inf for columns that are not kept.
template <class Map>
struct PlainRow {
  const Map& map;
  const double* x;
  const LogitsRows& rows;
  std::int64_t r;

  double z(std::int64_t column) const {
    const bool is_kept =
        rows.kept == nullptr || KeptColumns::of_row(rows.kept, rows.shard.width, r).keeps(column);
    return is_kept ? map.z(x[column]) : -kInfinity;
  }
};

/// True if a column has a larger z than column `target`, or precedes it with the same z.
template <class Map>
bool is_beaten(const PlainRow<Map>& row, std::int64_t columns, std::int64_t target) {
  const double of_target = row.z(target);
  for (std::int64_t v = 0; v < columns; ++v) {
    const double z = row.z(v);
    if (z > of_target || (z == of_target && v < target)) return true;
  }
  return false;
}

template <class Map>
void write_statistics(const LogitsRows& rows, const RowStatistics& out, std::int64_t r,
                      const Map& map) {
  const double* x = static_cast<const double*>(rows.data) + r * rows.shard.width;
  const PlainRow<Map> row{map, x, rows, r};
  const std::int64_t columns = rows.shard.valid();
  double max = -kInfinity;
  double min = kInfinity;
  double finite = 0;
  for (std::int64_t v = 0; v < columns; ++v) {
    const double z = row.z(v);
    max = std::max(max, z);
    if (z == -kInfinity) continue;
    min = std::min(min, z);
    ++finite;
  }
  const float shift = to_float(max);
  double sum = 0;
  double weighted = 0;
  double total = 0;
  double squares = 0;
  for (std::int64_t v = 0; v < columns; ++v) {
    const double z = row.z(v);
    if (z == -kInfinity) continue;
    const double distance = exact_distance_to_shift(z, shift);
    const double e = std::exp(distance);
    sum += e;
    squares += e * e;
    weighted += e == 0 ? 0.0 : e * distance;
    total += distance;
  }
  out.shift[r] = shift;
  out.sum[r] = static_cast<float>(sum);
  const std::int64_t y = rows.targets[r];
  out.target[r] = rows.shard.owns(y)
                      ? distance_to_shift(row.z(y - rows.shard.begin), finite > 0 ? shift : 0)
                      : 0.0f;
  if (out.weighted != nullptr) {
    out.weighted[r] = static_cast<float>(weighted);
    out.min[r] = to_float(min);
  }
  if (out.total == nullptr) return;
  out.total[r] = to_float(total);
  out.finite[r] = static_cast<float>(finite);
  if (out.squares == nullptr) return;
  out.squares[r] = static_cast<float>(squares);
  out.beaten[r] = rows.shard.owns(y) && is_beaten(row, columns, y - rows.shard.begin) ? 1 : 0;
}

template <class Map>
void write_gradient(const LogitsRows& rows, const RowSoftmax& softmax,
                    const RowCoefficients& coefficients, std::int64_t r, const Map& map,
                    double* out) {
  const double* x = static_cast<const double*>(rows.data) + r * rows.shard.width;
  const PlainRow<Map> row{map, x, rows, r};
  const std::int64_t columns = rows.shard.valid();
  const double sum = softmax.sum[r];
  const double log_sum = std::log(sum);
  const std::int64_t target =
      rows.shard.owns(rows.targets[r]) ? rows.targets[r] - rows.shard.begin : -1;
  for (std::int64_t v = 0; v < columns; ++v) {
    const double z = row.z(v);
    const double distance = exact_distance_to_shift(z, softmax.shift[r]);
    const double p = std::exp(distance) / sum;
    const double log_p = distance - log_sum;
    out[v] = map.slope(z) * (v == target ? coefficients.of_target(z, p, log_p)
                                         : coefficients.of_other(z, p, log_p));
  }
  std::fill(out + columns, out + rows.shard.width, 0.0);
}

}  // namespace

void plain_term_statistics(const LogitsRows& rows, const RowStatistics& out) {
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    if (rows.targets[r] < 0) {
      write_nothing(out, r);
      continue;
    }
    with_map_of_row(rows.transforms, r,
                    [&](const auto& map) { write_statistics(rows, out, r, map); });
  }
}

void plain_term_gradient(const LogitsRows& rows, const RowSoftmax& softmax,
                         const RowGradients& gradients, void* out) {
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    double* row = static_cast<double*>(out) + r * rows.shard.width;
    if (gradients.is_zero(r)) {
      std::fill_n(row, rows.shard.width, 0.0);
      continue;
    }
    const RowCoefficients coefficients = row_coefficients(softmax, gradients, rows.vocab, r);
    with_map_of_row(rows.transforms, r, [&](const auto& map) {
      write_gradient(rows, softmax, coefficients, r, map, row);
    });
  }
}

}  // namespace lossgrid
