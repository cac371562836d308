// SPDX-License-Identifier: Apache-2.0
// The kernels of rows.h for GPUs, one block of threads a row, and their launches. The shift of the
// statistics is the maximum; arithmetic is float32 for every dtype of the logits.
#pragma once

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

template <bool kAll, typename T>
LOSSGRID_KERNEL void write_statistics(const RowAccess<T>& access, std::int64_t r,
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

/// Returns the moments of a row. `load`: as for moments_of_thread.
template <bool kAll, typename T, typename Block, typename Load>
LOSSGRID_KERNEL Moments<kAll> moments_of_row(Block& block, const T* row, std::int64_t columns,
                                             Load&& load) {
  const auto own = block.each([&](int thread) {
    return moments_of_thread<kAll>(row, columns, thread, block.threads(), load);
  });
  return block.reduce(own, Moments<kAll>::none(), [](Moments<kAll> a, const Moments<kAll>& b) {
    a.add(b);
    return a;
  });
}

template <typename T, typename Block>
LOSSGRID_KERNEL void write_zeros(Block& block, T* to, std::int64_t begin, std::int64_t end) {
  T zero;
  store(0.0f, zero);
  block.run([&](int thread) {
    for (std::int64_t k = begin + thread; k < end; k += block.threads()) store_element(to, k, zero);
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

/// Writes the gradient of row `r`, perhaps over its logits. `load`: as for moments_of_thread.
/// `gradient`: as GradientOfRow.
template <typename T, typename Block, typename Gradient, typename Load>
LOSSGRID_KERNEL void write_gradient(Block& block, const RowAccess<T>& access, std::int64_t r,
                                    const Gradient& gradient, void* out, Load&& load) {
  const T* row = access.row(r);
  T* to = static_cast<T*>(out) + r * access.rows.width;
  const std::int64_t columns = access.rows.columns;
  const std::int64_t target = access.target_column(r);
  // In place, the thread that has the target overwrites what the others read.
  const auto of_target = block.each([&](int) {
    return target < 0 ? 0.0f : gradient.of_target(as_loaded(load, row[target], target));
  });
  block.sync();
  const bool aligned = is_aligned(to);
  block.run([&](int thread) {
    const float at_target = block.of(of_target, thread);
    const int threads = block.threads();
    const std::int64_t count = whole_vectors<T>(columns);
    const auto element = [&](T x, std::int64_t k) {
      T result;
      store(k == target ? at_target : gradient.of_other(x), result);
      return result;
    };
    const auto write = [&](std::int64_t v, const Vector<T>& x) {
      Vector<T> result;
      for (int k = 0; k < kVectorSize<T>; ++k) {
        result.items[k] = element(x.items[k], v * kVectorSize<T> + k);
      }
      store_vector(to, aligned, v, result);
    };
    std::int64_t v = thread;
    for (; v + (kVectorsATurn - 1) * threads < count; v += kVectorsATurn * threads) {
      Vector<T> x[kVectorsATurn];
      for (int k = 0; k < kVectorsATurn; ++k) x[k] = load(v + k * threads);
      for (int k = 0; k < kVectorsATurn; ++k) write(v + k * threads, x[k]);
    }
    for (; v < count; v += threads) write(v, load(v));
    for (std::int64_t k = count * kVectorSize<T> + thread; k < columns; k += threads) {
      store_element(to, k, element(as_loaded(load, load_element(row, k), k), k));
    }
  });
  write_zeros(block, to, columns, access.rows.width);
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
    const Moments<kAll> whole =
        moments_of_row<kAll>(block, row, access.rows.columns, RowVectors<T>(row));
    block.one([&] { write_statistics(access, r, whole, out); });
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
    if (grad[r] == 0) {
      write_zeros(block, static_cast<T*>(out) + r * access.rows.width, 0, access.rows.width);
      return;
    }
    write_gradient(block, access, r, GradientOfRow<T>(shift[r], sum[r], grad[r]), out,
                   RowVectors<T>(row));
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
    const T* row = access.row(r);
    const RowVectors<T> from_memory(row);
    auto* on_chip = reinterpret_cast<Vector<T>*>(block.shared());
    Moments<false> whole = Moments<false>::none();
    if (access.rows.targets[r] < 0) {
      block.one([&] { write_no_statistics(out, r); });
    } else {
      // Each thread reads again only vectors that it kept itself.
      whole = moments_of_row<false>(block, row, access.rows.columns, [&](std::int64_t v) {
        const Vector<T> x = from_memory(v);
        if (v < kept) on_chip[v] = x;
        return x;
      });
      block.one([&] { write_statistics(access, r, whole, out); });
    }
    if (grad[r] == 0) {
      block.sync();  // the target is read
      write_zeros(block, static_cast<T*>(gradient) + r * access.rows.width, 0, access.rows.width);
      return;
    }
    write_gradient(block, access, r, GradientOfRow<T>(whole.max, whole.sum, grad[r]), gradient,
                   [&](std::int64_t v) { return v < kept ? on_chip[v] : from_memory(v); });
  }
};

// Launches (launch.h), for each dtype of the logits. room_of_block() of a launcher is the shared
// memory of a block, for two blocks on an SM at once.

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
      const std::int64_t row_vectors = rows.columns / kVectorSize<T>;
      const std::int64_t most = launcher.room_of_block() / kVectorBytes;
      const std::int64_t kept = row_vectors < most ? row_vectors : most;
      launcher(ForwardBackwardKernel<T>{{rows}, grad, out, gradient, kept}, rows.rows,
               static_cast<std::size_t>(kept * kVectorBytes));
    });
  }
};

}  // namespace lossgrid
