// SPDX-License-Identifier: Apache-2.0
// Rows of logits in plain code, for mutants and controls that replace one formula of a row: logits
// z by another map than that of their transform, and gradients by another formula. For host memory;
// host_step.h runs them on tensors of a GPU.
#pragma once

#include <algorithm>
#include <cmath>
#include <tuple>
#include <type_traits>
#include <vector>

#include "harness/device/kernel/items.h"
#include "impls/kernels/kept_columns.h"
#include "impls/kernels/transformed_logit.h"
#include "impls/mutants/host_step.h"
#include "impls/toolkit/steps.h"

namespace lossgrid {

/// True if column v of row r belongs to the kept set of the row.
inline bool is_kept(const LogitsRows& rows, std::int64_t r, std::int64_t v) {
  return rows.kept == nullptr || KeptColumns::of_row(rows.kept, rows.shard.width, r).keeps(v);
}

/// `MappedRows`: rows with z = map(row, x) in the place of their logits x, or -inf outside of the
/// kept set, and without transforms and mask: float32, or float64 for float64 logits.
class MappedRows {
 public:
  template <typename Map>
  MappedRows(const LogitsRows& rows, Map&& map) : rows_(rows) {
    dispatch_floating(rows.dtype, [&](auto zero) {
      using Number = decltype(operand(zero));
      std::vector<Number>& values = std::get<std::vector<Number>>(values_);
      values.resize(static_cast<std::size_t>(rows.rows * rows.shard.width));
      const auto* x = static_cast<const decltype(zero)*>(rows.data);
      for (std::int64_t r = 0; r < rows.rows; ++r) {
        if (rows.targets[r] < 0) continue;
        for (std::int64_t v = 0; v < rows.shard.valid(); ++v) {
          const std::int64_t at = r * rows.shard.width + v;
          values[static_cast<std::size_t>(at)] =
              is_kept(rows, r, v) ? map(r, operand(x[at])) : static_cast<Number>(-infinity());
        }
      }
      rows_.data = values.data();
    });
    rows_.dtype = rows.dtype == DType::f64 ? DType::f64 : DType::f32;
    rows_.device = nullptr;
    rows_.transforms = nullptr;
    rows_.kept = nullptr;
  }
  MappedRows(const MappedRows&) = delete;
  MappedRows& operator=(const MappedRows&) = delete;

  const LogitsRows& rows() const { return rows_; }

  /// Returns z of row r at column v.
  double at(std::int64_t r, std::int64_t v) const {
    const auto place = static_cast<std::size_t>(r * rows_.shard.width + v);
    return rows_.dtype == DType::f64 ? std::get<std::vector<double>>(values_)[place]
                                     : std::get<std::vector<float>>(values_)[place];
  }

 private:
  LogitsRows rows_;
  std::tuple<std::vector<float>, std::vector<double>> values_;
};

/// Returns z of a logit x by the transform of row r.
template <typename Float>
Float transformed(const LogitsRows& rows, std::int64_t r, Float x) {
  Float z = x;
  with_map_of_row(rows.transforms, r, [&](const auto& map) { z = map.z(x); });
  return z;
}

/// Returns dz / dx of row r at z.
inline float slope_of(const LogitsRows& rows, std::int64_t r, double z) {
  float slope = 1;
  with_map_of_row(rows.transforms, r,
                  [&](const auto& map) { slope = static_cast<float>(map.slope(z)); });
  return slope;
}

/// Returns the rows with the right z.
inline MappedRows transformed_rows(const LogitsRows& rows) {
  return MappedRows(rows, [&rows](std::int64_t r, auto x) { return transformed(rows, r, x); });
}

/// One column of a row.
struct PlainColumn {
  double z;
  float distance;  // z - shift
  float p;
  bool is_target;
};

/// Writes the gradient slope(r, z) dz of every row whose gradients are not all 0, and 0 elsewhere.
/// formula(r) returns the function that makes dz of a PlainColumn.
template <typename Slope, typename Formula>
void write_gradient(const LogitsRows& rows, const MappedRows& mapped, const RowSoftmax& softmax,
                    const RowGradients& gradients, void* out, Slope&& slope, Formula&& formula) {
  dispatch_floating(rows.dtype, [&](auto zero) {
    auto* row = static_cast<decltype(zero)*>(out);
    for (std::int64_t r = 0; r < rows.rows; ++r, row += rows.shard.width) {
      std::fill_n(row, rows.shard.width, zero);
      if (gradients.is_zero(r)) continue;
      const auto dz = formula(r);
      for (std::int64_t v = 0; v < rows.shard.valid(); ++v) {
        const double z = mapped.at(r, v);
        const float distance = rows.dtype == DType::f64
                                   ? distance_to_shift(z, softmax.shift[r])
                                   : distance_to_shift(static_cast<float>(z), softmax.shift[r]);
        const PlainColumn column{z, distance, std::exp(distance) / softmax.sum[r],
                                 rows.targets[r] == rows.shard.begin + v};
        store(slope(r, z) * dz(column), row[v]);
      }
    }
  });
}

/// Writes the gradient by another formula of dz, as above.
template <typename Formula>
void gradient_by(const LogitsRows& rows, const RowSoftmax& softmax, const RowGradients& gradients,
                 void* out, Formula&& formula) {
  const MappedRows mapped = transformed_rows(rows);
  write_gradient(
      rows, mapped, softmax, gradients, out,
      [&rows](std::int64_t r, double z) { return slope_of(rows, r, z); }, formula);
}

/// Returns dz of a column by its coefficients (row_gradient.h), with `log_p` for ln p.
inline float dz_of(const RowCoefficients& row, const PlainColumn& column, float log_p) {
  const auto z = static_cast<float>(column.z);
  return column.is_target ? row.of_target(z, column.p, log_p) : row.of_other(z, column.p, log_p);
}

/// Writes the right gradient by z of rows that stand for logits x, times slope(r, z).
template <typename Slope>
void gradient_through(const LogitsRows& rows, const MappedRows& mapped, const RowSoftmax& softmax,
                      const RowGradients& gradients, void* out, Slope&& slope) {
  write_gradient(rows, mapped, softmax, gradients, out, slope, [&](std::int64_t r) {
    const RowCoefficients row = row_coefficients(softmax, gradients, rows.vocab, r);
    return [row, log_sum = std::log(softmax.sum[r])](const PlainColumn& column) {
      return dz_of(row, column, column.distance - log_sum);
    };
  });
}

using LogitMap = float (*)(const RowTransform&, float x);

/// Returns the rows with z by another map, in float32.
template <LogitMap kMap>
MappedRows rows_by(const LogitsRows& rows) {
  return MappedRows(rows, [&](std::int64_t r, auto x) -> decltype(x) {
    return kMap(rows.transforms[r], static_cast<float>(x));
  });
}

/// Takes statistics and gradient of z by another map, with the right slope.
template <LogitMap kMap>
void map_rows_by(Steps& steps) {
  steps.statistics = [](const LogitsRows& rows, const RowStatistics& out) {
    const HostRows host(rows);
    return rows_statistics(rows_by<kMap>(host.rows()).rows(), out);
  };
  steps.gradient = [](const LogitsRows& rows, const RowSoftmax& softmax,
                      const RowGradients& gradients, void* out) {
    const HostRows host(rows);
    host.with_output(rows.device, out, out == rows.data, [&](void* to) {
      gradient_through(host.rows(), rows_by<kMap>(host.rows()), softmax, gradients, to,
                       [&](std::int64_t r, double z) { return slope_of(host.rows(), r, z); });
    });
  };
}

/// Runs Steps::write_outputs, then change(r) on the host for rows that predict something.
template <typename Change>
void write_and_change(Device& device, std::int64_t rows, const WriteRow& write, Change&& change) {
  for_each_item(device, rows, write);
  device.synchronise();
  for (std::int64_t r = 0; r < rows; ++r) {
    if (write.targets[r] >= 0) change(r);
  }
}

}  // namespace lossgrid
