// SPDX-License-Identifier: Apache-2.0
// Kernels of rows.h for GPUs if rows have transforms, statistics of a mean over the vocabulary, or
// terms other than the log-probability, and their launches. They are bound by memory, so one kernel
// for each dtype computes all statistics or all terms.
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

  /// Adds the elements of a turn at once.
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
    total += tree_sum<kCount>(distances);
  }

 private:
  /// Returns the total relative to `max`.
  LOSSGRID_KERNEL double total_from(float max) const {
    if (finite == 0) return total;  // else the distance may be infinite
    return total + static_cast<double>(finite) * (static_cast<double>(softmax.max) - max);
  }
};

/// Term moments with the sum of squared exponentials, and a flag that is set if a column has a
/// larger logit than the target of the row, or precedes the target with the same logit.
struct PredictionMoments {
  TermMoments terms;
  float squares = 0;  // of exp(2 (z - max))
  float beaten = 0;   // 1 or 0

  LOSSGRID_KERNEL void add(const PredictionMoments& other) {
    const float to = larger(terms.softmax.max, other.terms.softmax.max);
    squares = squares_from(to) + other.squares_from(to);
    beaten = larger(beaten, other.beaten);
    terms.add(other.terms);
  }

  /// Adds the elements of a turn at once. `target` has column and logit of the target; the column
  /// is -1 if another shard has the target.
  template <int kCount, typename Z, typename Column>
  LOSSGRID_KERNEL void add_elements(const Z (&z)[kCount], std::int64_t target, Z of_target,
                                    const Column& column) {
    const TermMoments before = terms;
    terms.add_elements(z);
    const float max = terms.softmax.max;
    if (squares != 0) squares *= square(exp_of(before.softmax.max - max));
    if (max == -infinity()) return;
    float powers[kCount];
    for (int k = 0; k < kCount; ++k) {
      powers[k] = square(exp_of(distance_to_shift(z[k], max)));
      if (target < 0) continue;
      const bool is_larger = column(k) < target   ? z[k] >= of_target
                             : column(k) > target ? z[k] > of_target
                                                  : false;
      if (is_larger) beaten = 1;
    }
    squares += tree_sum<kCount>(powers);
  }

 private:
  LOSSGRID_KERNEL static float square(float x) { return x * x; }

  /// Returns the squares relative to `max`.
  LOSSGRID_KERNEL float squares_from(float max) const {
    if (squares == 0) return 0;  // else the distance may be infinite
    return squares * square(exp_of(terms.softmax.max - max));
  }
};

/// Calls f(load) with the reader of the vectors of row r: of all columns, or with kMask of kept
/// columns.
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

/// With kPredictions, also computes the numbers of PredictionMoments.
template <typename T, bool kMask, bool kPredictions>
struct TermStatisticsKernel {
  using Row = std::conditional_t<kPredictions, PredictionMoments, TermMoments>;
  using Z = decltype(operand(T()));
  RowAccess<T> access;
  const RowTransform* transforms;
  CudaTermStatistics out;

  template <typename Block>
  LOSSGRID_KERNEL void operator()(Block& block) const {
    const std::int64_t r = block.index();
    if (access.rows.targets[r] < 0) {
      block.one([&] {
        Row nothing;
        Moments<true>& softmax = terms_of(nothing).softmax;
        softmax = {0, 1, 0, 0};
        write(r, nothing, 0);
      });
      return;
    }
    count_mask_read<kMask>(block, access.rows);
    with_row_vectors<kMask>(access, r, [&](const auto& load) {
      with_map_of_row(transforms, r, [&](const auto& map) { write_row(block, r, map, load); });
    });
  }

 private:
  LOSSGRID_KERNEL static TermMoments& terms_of(TermMoments& row) { return row; }
  LOSSGRID_KERNEL static TermMoments& terms_of(PredictionMoments& row) { return row.terms; }

  template <typename Block, class Map, class Load>
  LOSSGRID_KERNEL void write_row(Block& block, std::int64_t r, const Map& map,
                                 const Load& load) const {
    const T* row = access.row(r);
    const std::int64_t target = access.target_column(r);
    const Z of_target = target < 0 ? Z(0) : map.z(operand(as_loaded(load, row[target], target)));
    const auto own = block.each([&](int thread) {
      Row moments;
      add_elements_of_thread(row, access.rows.columns, thread, block.threads(), load,
                             [&](const auto& x, const auto& column) {
                               add_mapped(map, target, of_target, x, column, moments);
                             });
      return moments;
    });
    Row whole = block.reduce(own, Row(), [](Row a, const Row& b) {
      a.add(b);
      return a;
    });
    block.one([&] {
      // The distance to a maximum of -inf would be NaN.
      const float max = terms_of(whole).softmax.max;
      const float shift = max == -infinity() ? 0.0f : max;
      write(r, whole, target < 0 ? 0.0f : distance_to_shift(of_target, shift));
    });
  }

  template <class Map, int kCount, typename Column>
  LOSSGRID_KERNEL static void add_mapped(const Map& map, [[maybe_unused]] std::int64_t target,
                                         [[maybe_unused]] Z of_target, const T (&x)[kCount],
                                         [[maybe_unused]] const Column& column, Row& moments) {
    Z z[kCount];
    for (int k = 0; k < kCount; ++k) z[k] = map.z(operand(x[k]));
    if constexpr (kPredictions) {
      moments.add_elements(z, target, of_target, column);
    } else {
      moments.add_elements(z);
    }
  }

  LOSSGRID_KERNEL void write(std::int64_t r, Row& row, float target) const {
    const TermMoments& terms = terms_of(row);
    out.softmax.shift[r] = terms.softmax.max;
    out.softmax.sum[r] = terms.softmax.sum;
    out.softmax.target[r] = target;
    if (out.softmax.weighted != nullptr) {
      out.softmax.weighted[r] = terms.softmax.weighted;
      out.softmax.min[r] = terms.softmax.min;
    }
    if (out.total == nullptr) return;
    out.total[r] = to_float(terms.total);
    out.finite[r] = terms.finite;
    if constexpr (kPredictions) {
      out.squares[r] = row.squares;
      out.beaten[r] = row.beaten;
    }
  }
};

/// Gradient of elements of a row, like GradientOfRow.
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
    T* to = static_cast<T*>(out) + r * access.rows.width;
    if (gradients.is_zero(r)) {
      write_zeros(block, to, 0, access.rows.width);
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
        write_gradient(block, access, r, gradient, to, load, is_aligned(to));
      });
    });
  }
};

// Launches (launch.h), for each dtype of the logits.

struct LaunchTermStatistics {
  static constexpr const char* kName = "term_statistics";
  CudaRows rows;
  const RowTransform* transforms;
  CudaTermStatistics out;

  template <typename Launcher>
  void operator()(Launcher& launcher) const {
    dispatch_floating(rows.dtype, [&](auto zero) {
      using T = decltype(zero);
      if (rows.kept != nullptr) {
        launch<T, true>(launcher);
      } else {
        launch<T, false>(launcher);
      }
    });
  }

 private:
  template <typename T, bool kMask, typename Launcher>
  void launch(Launcher& launcher) const {
    if (out.squares != nullptr) {
      launcher(TermStatisticsKernel<T, kMask, true>{{rows}, transforms, out}, rows.rows, 0);
    } else {
      launcher(TermStatisticsKernel<T, kMask, false>{{rows}, transforms, out}, rows.rows, 0);
    }
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
