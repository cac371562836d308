// SPDX-License-Identifier: Apache-2.0
// Kernels of rows.h for GPUs, with one block of threads per row, and their launches. The shift of
// the statistics is the maximum; arithmetic is float32 for every dtype of the logits.
#pragma once

#include "harness/device/kernel/rows_on_chip.h"
#include "impls/kernels/cuda/cuda_rows.h"
#include "impls/kernels/cuda/row_moments.h"

namespace lossgrid {

template <typename T>
struct RowAccess {
  CudaRows rows;

  LOSSGRID_KERNEL const T* row(std::int64_t r) const {
    return static_cast<const T*>(rows.data) + r * rows.width;
  }
  /// Returns the column of the target; -1 if another shard has it.
  LOSSGRID_KERNEL std::int64_t target_column(std::int64_t r) const {
    const std::int64_t column = rows.targets[r] - rows.first_id;
    return rows.targets[r] >= 0 && column >= 0 && column < rows.columns ? column : -1;
  }
  /// Returns x_y - shift; 0 if another shard has the target.
  LOSSGRID_KERNEL float target_distance(std::int64_t r, float shift) const {
    const std::int64_t column = target_column(r);
    return column < 0 ? 0.0f : distance_to_shift(row(r)[column], shift);
  }
};

/// Writes the statistics of a row that predicts nothing.
LOSSGRID_KERNEL void write_no_statistics(const CudaRowStatistics& out, std::int64_t r) {
  out.shift[r] = 0;
  out.sum[r] = 1;
  out.target[r] = 0;
  if (out.weighted == nullptr) return;
  out.weighted[r] = 0;
  out.min[r] = 0;
}

/// Writes the statistics of row r. access.target_distance(r, shift) returns z_y - shift, like
/// RowAccess::target_distance.
template <bool kAll, typename Access>
LOSSGRID_KERNEL void write_statistics(const Access& access, std::int64_t r,
                                      const Moments<kAll>& whole, const CudaRowStatistics& out) {
  // The distance to a maximum of -inf would be NaN.
  const float shift = whole.max == -infinity() ? 0.0f : whole.max;
  out.shift[r] = whole.max;
  out.sum[r] = whole.sum;
  out.target[r] = access.target_distance(r, shift);
  if (!kAll) return;
  out.weighted[r] = whole.weighted;
  out.min[r] = whole.min;
}

/// Returns the merged moments of all threads; `own` are the threads' moments from block.each().
template <bool kAll, typename Block, typename Own>
LOSSGRID_KERNEL Moments<kAll> moments_of_block(Block& block, const Own& own) {
  return block.reduce(own, Moments<kAll>::none(), [](Moments<kAll> a, const Moments<kAll>& b) {
    a.add(b);
    return a;
  });
}

/// Returns the moments of a row. `load` is the argument of moments_of_thread.
template <bool kAll, typename T, typename Block, typename Load>
LOSSGRID_KERNEL Moments<kAll> moments_of_row(Block& block, const T* row, std::int64_t columns,
                                             Load&& load) {
  const auto own = block.each([&](int thread) {
    return moments_of_thread<kAll>(row, columns, thread, block.threads(), load);
  });
  return moments_of_block<kAll>(block, own);
}

template <typename T, typename Block>
LOSSGRID_KERNEL void write_zeros(Block& block, T* to, std::int64_t begin, std::int64_t end) {
  Vector<T> zeros;
  for (T& zero : zeros.items) store(0.0f, zero);
  const std::int64_t aligned = begin + elements_to_alignment(to + begin);
  const std::int64_t head = aligned < end ? aligned : end;
  const std::int64_t vectors = whole_vectors<T>(end - head);
  const std::int64_t rest = head + vectors * kVectorSize<T>;
  block.run([&](int thread) {
    if (begin + thread < head) store_element(to, begin + thread, zeros.items[0]);
    for (std::int64_t v = thread; v < vectors; v += block.threads()) {
      store_vector(to + head, true, v, zeros);
    }
    if (rest + thread < end) store_element(to, rest + thread, zeros.items[0]);
  });
}

/// The gradient dz_v = grad ([v = y] - exp(x_v - shift) / sum) of elements of a row.
template <typename T>
struct GradientOfRow {
  float shift;
  float sum;
  float grad;
  float factor;

  LOSSGRID_KERNEL GradientOfRow(float shift, float sum, float grad)
      : shift(shift), sum(sum), grad(grad), factor(-grad / sum) {}

  /// Returns the gradient of the target's element, x.
  LOSSGRID_KERNEL float of_target(T x) const {
    return grad * (1.0f - exp_of(distance_to_shift(x, shift)) / sum);
  }
  /// Returns the gradient of another element.
  LOSSGRID_KERNEL float of_other(T x) const { return factor * exp_of(distance_to_shift(x, shift)); }
};

/// Writes the gradient of row `r` to `to`, perhaps over its logits. `load` is the argument of
/// moments_of_thread. `gradient` has the functions of GradientOfRow. `head` is the number of
/// elements before the first vector, also of `load`. `aligned` is true if vectors of `to` can be
/// written at once from there on.
template <typename T, typename Block, typename Gradient, typename Load, typename Aligned,
          typename Head = std::integral_constant<int, 0>>
LOSSGRID_KERNEL void write_gradient(Block& block, const RowAccess<T>& access, std::int64_t r,
                                    const Gradient& gradient, T* to, Load&& load, Aligned aligned,
                                    Head head = {}) {
  const T* row = access.row(r);
  const std::int64_t columns = access.rows.columns;
  const std::int64_t target = access.target_column(r);
  // In place, the thread that has the target overwrites its logit.
  const auto of_target = block.each([&](int thread) {
    return thread != 0 || target < 0 ? 0.0f
                                     : gradient.of_target(as_loaded(load, row[target], target));
  });
  block.sync();
  block.run([&](int thread) {
    const int threads = block.threads();
    // The loop over the rest takes all elements of a row that ends before its first vector.
    const std::int64_t first = head <= columns ? static_cast<std::int64_t>(head) : 0;
    const std::int64_t count = first == head ? whole_vectors<T>(columns - first) : 0;
    const auto write = [&](std::int64_t v, const Vector<T>& x) {
      Vector<T> result;
      for (int k = 0; k < kVectorSize<T>; ++k)
        store(gradient.of_other(x.items[k]), result.items[k]);
      store_vector(to + first, aligned, v, result);
    };
    const auto write_one = [&](std::int64_t k) {
      T result;
      store(gradient.of_other(as_loaded(load, load_element(row, k), k)), result);
      store_element(to, k, result);
    };
    if (thread < first) write_one(thread);
    std::int64_t v = thread;
    for (; v + (kVectorsATurn - 1) * threads < count; v += kVectorsATurn * threads) {
      Vector<T> x[kVectorsATurn];
      for (int k = 0; k < kVectorsATurn; ++k) x[k] = load(v + k * threads);
      for (int k = 0; k < kVectorsATurn; ++k) write(v + k * threads, x[k]);
    }
    LOSSGRID_FEW_TURNS
    for (; v < count; v += threads) write(v, load(v));
    LOSSGRID_FEW_TURNS
    for (std::int64_t k = first + count * kVectorSize<T> + thread; k < columns; k += threads) {
      write_one(k);
    }
  });
  write_zeros(block, to, columns, access.rows.width);
  // Once for the row, instead of a comparison for each element.
  block.sync();
  block.one([&] {
    if (target >= 0) store(block.of(of_target, 0), to[target]);
  });
}

template <typename T, bool kAll>
struct StatisticsKernel {
  RowAccess<T> access;
  CudaRowStatistics out;

  template <typename Block>
  LOSSGRID_KERNEL void operator()(Block& block) const {
    const std::int64_t r = block.index();
    if (access.rows.targets[r] < 0) {
      block.one([&] { write_no_statistics(out, r); });
      return;
    }
    const T* row = access.row(r);
    with_alignment(row, row, [&](auto aligned) {
      const Moments<kAll> whole =
          moments_of_row<kAll>(block, row, access.rows.columns, RowVectors(row, aligned));
      block.one([&] { write_statistics(access, r, whole, out); });
    });
  }
};

template <typename T>
struct GradientKernel {
  RowAccess<T> access;
  const float* shift;
  const float* sum;
  const float* grad;
  void* out;

  template <typename Block>
  LOSSGRID_KERNEL void operator()(Block& block) const {
    const std::int64_t r = block.index();
    const T* row = access.row(r);
    T* to = static_cast<T*>(out) + r * access.rows.width;
    // All numbers of the row are loaded at once, as they are in memory of the host.
    const GradientOfRow<T> gradient(shift[r], sum[r], grad[r]);
    if (gradient.grad == 0) {
      write_zeros(block, to, 0, access.rows.width);
      return;
    }
    with_common_alignment<T>(row, to, [&](auto aligned, auto head) {
      write_gradient(block, access, r, gradient, to, RowVectors(row + head, aligned), aligned,
                     head);
    });
  }
};

template <typename T>
struct ForwardBackwardKernel {
  RowAccess<T> access;
  const float* grad;
  CudaRowStatistics out;
  void* gradient;
  std::int64_t kept;  // vectors of a row that stay in shared memory

  template <typename Block>
  LOSSGRID_KERNEL void operator()(Block& block) const {
    const std::int64_t r = block.index();
    T* to = static_cast<T*>(gradient) + r * access.rows.width;
    with_alignment<T>(access.row(r), to, [&](auto aligned) { run(block, r, to, aligned); });
  }

 private:
  template <typename Block, typename Aligned>
  LOSSGRID_KERNEL void run(Block& block, std::int64_t r, T* to, Aligned aligned) const {
    const T* row = access.row(r);
    const float weight = grad[r];  // loaded before the row
    const RowVectors from_memory(row, aligned);
    auto* on_chip = reinterpret_cast<Vector<T>*>(block.shared());
    Moments<false> whole = Moments<false>::none();
    if (access.rows.targets[r] < 0) {
      block.one([&] { write_no_statistics(out, r); });
    } else {
      // Each thread reads again only vectors that it kept itself.
      whole = moments_of_row<false>(block, row, access.rows.columns, [&](std::int64_t v) {
        const Vector<T> x = from_memory(v);
        if (v < kept) on_chip[block.place_on_chip(v)] = x;
        return x;
      });
      block.one([&] { write_statistics(access, r, whole, out); });
    }
    if (weight == 0) {
      block.sync();  // all threads have read the target
      write_zeros(block, to, 0, access.rows.width);
      return;
    }
    write_gradient(
        block, access, r, GradientOfRow<T>(whole.max, whole.sum, weight), to,
        [&](std::int64_t v) { return v < kept ? on_chip[block.place_on_chip(v)] : from_memory(v); },
        aligned);
  }
};

// Launches (launch.h), for each dtype of the logits.

struct LaunchStatistics {
  static constexpr const char* kName = "statistics";
  CudaRows rows;
  CudaRowStatistics out;

  template <typename Launcher>
  void operator()(Launcher& launcher) const {
    dispatch_floating(rows.dtype, [&](auto zero) {
      using T = decltype(zero);
      if (out.weighted != nullptr) {
        launcher(StatisticsKernel<T, true>{{rows}, out}, rows.rows, 0);
      } else {
        launcher(StatisticsKernel<T, false>{{rows}, out}, rows.rows, 0);
      }
    });
  }
};

struct LaunchGradient {
  static constexpr const char* kName = "gradient";
  CudaRows rows;
  const float* shift;
  const float* sum;
  const float* grad;
  void* out;

  template <typename Launcher>
  void operator()(Launcher& launcher) const {
    dispatch_floating(rows.dtype, [&](auto zero) {
      using T = decltype(zero);
      launcher(GradientKernel<T>{{rows}, shift, sum, grad, out}, rows.rows, 0);
    });
  }
};

struct LaunchForwardBackward {
  static constexpr const char* kName = "forward_backward";
  CudaRows rows;
  const float* grad;
  CudaRowStatistics out;
  void* gradient;

  template <typename Launcher>
  void operator()(Launcher& launcher) const {
    dispatch_floating(rows.dtype, [&](auto zero) {
      using T = decltype(zero);
      const auto kernel = [&](std::int64_t kept) {
        return ForwardBackwardKernel<T>{{rows}, grad, out, gradient, kept};
      };
      launch_keeping_rows(launcher, kernel, rows.rows, rows.columns / kVectorSize<T>);
    });
  }
};

}  // namespace lossgrid
