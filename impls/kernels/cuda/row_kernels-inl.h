// SPDX-License-Identifier: Apache-2.0
// The row kernels as code of a block; a .cu file launches them on GPUs, a .cpp file runs them on
// the processor.
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
  /// The column of the target; -1 where another shard has it.
  LOSSGRID_KERNEL std::int64_t target_column(std::int64_t r) const {
    const std::int64_t column = rows.targets[r] - rows.first_id;
    return rows.targets[r] >= 0 && column >= 0 && column < rows.columns ? column : -1;
  }
  /// x_y - shift; 0 where another shard has the target.
  LOSSGRID_KERNEL float target_distance(std::int64_t r, float shift) const {
    const std::int64_t column = target_column(r);
    return column < 0 ? 0.0f : distance_to_shift(row(r)[column], shift);
  }
};

/// The row predicts nothing.
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
  // A shard of nothing but -inf has no distance.
  const float shift = whole.shift == -infinity() ? 0.0f : whole.shift;
  out.shift[r] = whole.shift;
  out.sum[r] = whole.sum;
  out.target[r] = access.target_distance(r, shift);
  if (!kAll) return;
  out.weighted[r] = whole.weighted;
  out.min[r] = whole.min;
}

/// `load` as moments_of_thread has it.
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
  block.run([&](int thread) {
    for (std::int64_t k = begin + thread; k < end; k += block.threads()) store(0.0f, to[k]);
  });
}

/// dz_v = grad ([v = y] - exp(x_v - shift) / sum) of elements of a row.
template <typename T>
struct GradientOfRow {
  float shift;
  float factor;         // - grad / sum
  std::int64_t target;  // column, or -1
  float of_target;

  LOSSGRID_KERNEL T element(T x, std::int64_t k) const {
    T result;
    store(k == target ? of_target : factor * exp_of(distance_to_shift(x, shift)), result);
    return result;
  }
  LOSSGRID_KERNEL Vector<T> vector(const Vector<T>& x, std::int64_t first) const {
    Vector<T> result;
    for (int k = 0; k < kVectorSize<T>; ++k) result.items[k] = element(x.items[k], first + k);
    return result;
  }
};

/// Writes the gradient of row `r`, which may take the place of its logits. `load` as
/// moments_of_thread has it.
template <typename T, typename Block, typename Load>
LOSSGRID_KERNEL void write_gradient(Block& block, const RowAccess<T>& access, std::int64_t r,
                                    float shift, float sum, float grad, void* out, Load&& load) {
  const T* row = access.row(r);
  T* to = static_cast<T*>(out) + r * access.rows.width;
  const std::int64_t columns = access.rows.columns;
  // In place, the thread that has the target overwrites what the others read.
  const auto of_target = block.each(
      [&](int) { return grad * (1.0f - exp_of(access.target_distance(r, shift)) / sum); });
  block.sync();
  const bool aligned = is_aligned(to);
  block.run([&](int thread) {
    const GradientOfRow<T> gradient{shift, -grad / sum, access.target_column(r),
                                    block.of(of_target, thread)};
    const int threads = block.threads();
    const std::int64_t count = whole_vectors<T>(columns);
    const auto write = [&](std::int64_t v, const Vector<T>& x) {
      store_vector(to, aligned, v, gradient.vector(x, v * kVectorSize<T>));
    };
    std::int64_t v = thread;
    for (; v + (kVectorsATurn - 1) * threads < count; v += kVectorsATurn * threads) {
      Vector<T> x[kVectorsATurn];
      for (int k = 0; k < kVectorsATurn; ++k) x[k] = load(v + k * threads);
      for (int k = 0; k < kVectorsATurn; ++k) write(v + k * threads, x[k]);
    }
    for (; v < count; v += threads) write(v, load(v));
    for (std::int64_t k = count * kVectorSize<T> + thread; k < columns; k += threads) {
      to[k] = gradient.element(row[k], k);
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
    write_gradient(block, access, r, shift[r], sum[r], grad[r], out, RowVectors<T>(row));
  }
};

template <typename T>
struct SweepKernel {
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
      // A thread comes back to the vectors that it has seen: no other reads what it keeps.
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
    write_gradient(block, access, r, whole.shift, whole.sum, grad[r], gradient,
                   [&](std::int64_t v) { return v < kept ? on_chip[v] : from_memory(v); });
  }
};

// What is launched, for every type of element. A Launcher is called with a kernel, its blocks
// and their bytes of shared memory, of which it has room_of_block() for each of the two blocks that
// an SM has at once.

template <typename F>
void for_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f(double{});
    case DType::bf16:
      return f(bf16{});
    default:
      return f(float{});
  }
}

template <typename Launcher>
void launch_statistics(Launcher& launch, const CudaRows& rows, const CudaRowStatistics& out) {
  for_dtype(rows.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (out.weighted != nullptr) {
      launch(StatisticsKernel<T, true>{{rows}, out}, rows.rows, 0);
    } else {
      launch(StatisticsKernel<T, false>{{rows}, out}, rows.rows, 0);
    }
  });
}

template <typename Launcher>
void launch_gradient(Launcher& launch, const CudaRows& rows, const float* shift, const float* sum,
                     const float* grad, void* out) {
  for_dtype(rows.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(GradientKernel<T>{{rows}, shift, sum, grad, out}, rows.rows, 0);
  });
}

template <typename Launcher>
void launch_sweep(Launcher& launch, const CudaRows& rows, const float* grad,
                  const CudaRowStatistics& out, void* gradient) {
  for_dtype(rows.dtype, [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t row_vectors = rows.columns / kVectorSize<T>;
    const std::int64_t most = launch.room_of_block() / kVectorBytes;
    const std::int64_t kept = row_vectors < most ? row_vectors : most;
    launch(SweepKernel<T>{{rows}, grad, out, gradient, kept}, rows.rows,
           static_cast<std::size_t>(kept * kVectorBytes));
  });
}

}  // namespace lossgrid
