// SPDX-License-Identifier: Apache-2.0
// The kernels of rows.h for GPUs where rows have transforms, statistics of a mean over the
// vocabulary, or terms beside the log-probability, and their launches. They wait for memory, so
// that one kernel for each dtype computes all statistics or all terms.
#pragma once

#include <type_traits>

#include "impls/kernels/cuda/row_kernels-inl.h"
#include "impls/kernels/row_gradient.h"
#include "impls/kernels/transformed_logit.h"

namespace lossgrid {

/// Moments of transformed logits with the sum of distances to the maximum, float64 over the turns
/// of a thread, and the number of logits that are not -inf.
struct TermMoments {
  Moments<true> softmax = Moments<true>::none();
  float finite = 0;
  double total = 0;

  LOSSGRID_KERNEL void add(const TermMoments& other) {
    const double own = total_from(larger(softmax.max, other.softmax.max));
    total = own + other.total_from(larger(softmax.max, other.softmax.max));
    finite += other.finite;
    softmax.add(other.softmax);
  }

  /// Elements of a turn at once.
  template <int kCount, typename Z>
  LOSSGRID_KERNEL void add_elements(const Z (&z)[kCount]) {
    Moments<true> after = softmax;
    after.add_elements(z);
    total = total_from(after.max);
    softmax = after;
    float distances[kCount];
    for (int k = 0; k < kCount; ++k) {
      const bool is_finite = z[k] != -infinity();
      distances[k] = is_finite ? distance_to_shift(z[k], after.max) : 0.0f;
      finite += is_finite ? 1.0f : 0.0f;
    }
    const float of_turn = tree_sum<kCount>(distances);
    total += of_turn;
    // Moments pass over a NaN among nothing but -inf.
    if (of_turn != of_turn) softmax.sum = of_turn;
  }

 private:
  /// Returns the total relative to `max`.
  LOSSGRID_KERNEL double total_from(float max) const {
    if (finite == 0) return total;  // else the distance may be infinite
    return total + static_cast<double>(finite) * (static_cast<double>(softmax.max) - max);
  }
};

/// Calls f(load) with what reads the vectors of row r: all columns, or with kMask the kept ones.
template <bool kMask, typename T, typename F>
LOSSGRID_KERNEL void with_row_vectors(const RowAccess<T>& access, std::int64_t r, F&& f) {
  if constexpr (kMask) {
    f(KeptVectors<T>(access.row(r), KeptColumns::of_row(access.rows.kept, access.rows.width, r)));
  } else {
    f(RowVectors<T>(access.row(r)));
  }
}

/// Counts the reads of a row of the mask.
template <bool kMask, typename Block>
LOSSGRID_KERNEL void count_mask_read(Block& block, const CudaRows& rows) {
  if constexpr (kMask) {
    block.one([&] { count_row_read((rows.width + 63) / 64 * 8); });
  }
}

template <typename T, bool kMask>
struct TermStatisticsKernel {
  RowAccess<T> access;
  const RowTransform* transforms;
  CudaRowStatistics out;
  float* total;
  float* finite;

  template <typename Block>
  LOSSGRID_KERNEL void operator()(Block& block) const {
    const std::int64_t r = block.index();
    if (access.rows.targets[r] < 0) {
      block.one([&] { write(r, {0, 1, 0, 0}, 0, 0, 0); });
      return;
    }
    count_mask_read<kMask>(block, access.rows);
    with_row_vectors<kMask>(access, r, [&](const auto& load) {
      with_map_of_row(transforms, r, [&](const auto& map) { write_row(block, r, map, load); });
    });
  }

 private:
  template <typename Block, class Map, class Load>
  LOSSGRID_KERNEL void write_row(Block& block, std::int64_t r, const Map& map,
                                 const Load& load) const {
    const T* row = access.row(r);
    const auto own = block.each([&](int thread) {
      TermMoments moments;
      add_elements_of_thread(row, access.rows.columns, thread, block.threads(), load,
                             [&](const auto& x) { add_mapped(map, x, moments); });
      return moments;
    });
    const TermMoments whole =
        block.reduce(own, TermMoments(), [](TermMoments a, const TermMoments& b) {
          a.add(b);
          return a;
        });
    block.one([&] {
      const std::int64_t target = access.target_column(r);
      // The distance to a maximum of -inf would be NaN.
      const float shift = whole.softmax.max == -infinity() ? 0.0f : whole.softmax.max;
      const float distance =
          target < 0
              ? 0.0f
              : distance_to_shift(map.z(operand(as_loaded(load, row[target], target))), shift);
      write(r, whole.softmax, distance, to_float(whole.total), whole.finite);
    });
  }

  template <class Map, int kCount>
  LOSSGRID_KERNEL static void add_mapped(const Map& map, const T (&x)[kCount],
                                         TermMoments& moments) {
    decltype(operand(T())) z[kCount];
    for (int k = 0; k < kCount; ++k) z[k] = map.z(operand(x[k]));
    moments.add_elements(z);
  }

  LOSSGRID_KERNEL void write(std::int64_t r, const Moments<true>& softmax, float target,
                             float total_of_row, float finite_of_row) const {
    out.shift[r] = softmax.max;
    out.sum[r] = softmax.sum;
    out.target[r] = target;
    if (out.weighted != nullptr) {
      out.weighted[r] = softmax.weighted;
      out.min[r] = softmax.min;
    }
    if (total == nullptr) return;
    total[r] = total_of_row;
    finite[r] = finite_of_row;
  }
};

/// The gradient of elements of a row, as GradientOfRow.
template <typename T, class Map>
struct TermGradientOfRow {
  Map map;
  float shift;
  float log_sum;
  float sum;
  RowCoefficients coefficients;

  LOSSGRID_KERNEL float of_target(T x) const {
    return evaluated(
        x, [&](float z, float p, float log_p) { return coefficients.of_target(z, p, log_p); });
  }
  LOSSGRID_KERNEL float of_other(T x) const {
    return evaluated(
        x, [&](float z, float p, float log_p) { return coefficients.of_other(z, p, log_p); });
  }

 private:
  template <typename F>
  LOSSGRID_KERNEL float evaluated(T x, F&& by_logit) const {
    const auto z = map.z(operand(x));
    const float distance = distance_to_shift(z, shift);
    const float p = exp_of(distance) / sum;
    return map.slope(to_float(z)) * by_logit(to_float(z), p, distance - log_sum);
  }
};

template <typename T, bool kMask>
struct TermGradientKernel {
  RowAccess<T> access;
  const RowTransform* transforms;
  RowSoftmax softmax;
  RowGradients gradients;
  std::int64_t vocab;
  void* out;

  template <typename Block>
  LOSSGRID_KERNEL void operator()(Block& block) const {
    const std::int64_t r = block.index();
    if (gradients.is_zero(r)) {
      write_zeros(block, static_cast<T*>(out) + r * access.rows.width, 0, access.rows.width);
      return;
    }
    count_mask_read<kMask>(block, access.rows);
    const RowCoefficients coefficients = row_coefficients(softmax, gradients, vocab, r);
    const float sum = softmax.sum[r];
    with_map_of_row(transforms, r, [&](const auto& map) {
      using Map = std::decay_t<decltype(map)>;
      const TermGradientOfRow<T, Map> gradient{map, softmax.shift[r], std::log(sum), sum,
                                               coefficients};
      with_row_vectors<kMask>(access, r, [&](const auto& load) {
        write_gradient(block, access, r, gradient, out, load);
      });
    });
  }
};

// Launches (launch.h), for each dtype of the logits.

struct LaunchTermStatistics {
  static constexpr const char* kName = "term_statistics";
  CudaRows rows;
  const RowTransform* transforms;
  CudaRowStatistics out;
  float* total;
  float* finite;

  template <typename Launcher>
  void operator()(Launcher& launcher) const {
    dispatch_floating(rows.dtype, [&](auto zero) {
      using T = decltype(zero);
      if (rows.kept != nullptr) {
        launcher(TermStatisticsKernel<T, true>{{rows}, transforms, out, total, finite}, rows.rows,
                 0);
      } else {
        launcher(TermStatisticsKernel<T, false>{{rows}, transforms, out, total, finite}, rows.rows,
                 0);
      }
    });
  }
};

struct LaunchTermGradient {
  static constexpr const char* kName = "term_gradient";
  CudaRows rows;
  const RowTransform* transforms;
  RowSoftmax softmax;
  RowGradients gradients;
  std::int64_t vocab;
  void* out;

  template <typename Launcher>
  void operator()(Launcher& launcher) const {
    dispatch_floating(rows.dtype, [&](auto zero) {
      using T = decltype(zero);
      if (rows.kept != nullptr) {
        launcher(TermGradientKernel<T, true>{{rows}, transforms, softmax, gradients, vocab, out},
                 rows.rows, 0);
      } else {
        launcher(TermGradientKernel<T, false>{{rows}, transforms, softmax, gradients, vocab, out},
                 rows.rows, 0);
      }
    });
  }
};

}  // namespace lossgrid
