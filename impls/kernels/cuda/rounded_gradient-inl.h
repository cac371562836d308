// SPDX-License-Identifier: Apache-2.0
// Gradient of float32 rows by the log-probability alone, rounded to bf16 and written over the
// logits, for products of bf16 factors. It has the bits of GradientKernel with its result rounded,
// without a second pass over memory.
#pragma once

#include "impls/kernels/cuda/hidden_kernels-inl.h"
#include "impls/kernels/cuda/row_kernels-inl.h"

namespace lossgrid {

/// Writes to the first half of a row's memory. In each turn the block reads floats, then writes
/// half as many bytes: it overwrites only elements that all threads have read in this turn or
/// before, and never elements that a later turn reads.
struct RoundedGradientKernel {
  RowAccess<float> access;
  const float* shift;
  const float* sum;
  const float* grad;
  float* data;  // the logits

  template <typename Block>
  LOSSGRID_KERNEL void operator()(Block& block) const {
    const std::int64_t r = block.index();
    const std::int64_t width = access.rows.width;
    auto* to = reinterpret_cast<bf16*>(data + r * width);
    if (grad[r] == 0) {
      write_zeros(block, to, 0, width);
      return;
    }
    const float* row = access.row(r);
    const std::int64_t columns = access.rows.columns;
    const std::int64_t target = access.target_column(r);
    const GradientOfRow<float> gradient(shift[r], sum[r], grad[r]);
    // The barrier of the first turn separates this read from the write over it.
    const auto of_target = block.each([&](int thread) {
      return thread != 0 || target < 0 ? 0.0f : gradient.of_target(row[target]);
    });
    const std::int64_t groups = is_aligned(row) ? columns / kGroupSize : 0;
    write_groups(block, row, groups, gradient, to);
    for (std::int64_t begin = groups * kGroupSize; begin < columns; begin += block.threads()) {
      const auto values = block.each([&](int thread) {
        return begin + thread < columns ? load_element(row, begin + thread) : 0.0f;
      });
      block.sync();
      block.run([&](int thread) {
        if (begin + thread >= columns) return;
        bf16 result;
        store(gradient.of_other(block.of(values, thread)), result);
        store_element(to, begin + thread, result);
      });
    }
    write_zeros(block, to, columns, width);
    // Once for the row, instead of a comparison for each element.
    block.sync();
    block.one([&] {
      if (target >= 0) store(block.of(of_target, 0), to[target]);
    });
  }

 private:
  static constexpr int kGroupsATurn = 2;  // loads of four vectors are in flight

  struct Loaded {
    Group groups[kGroupsATurn];
  };

  template <typename Block>
  LOSSGRID_KERNEL static void write_groups(Block& block, const float* row, std::int64_t groups,
                                           const GradientOfRow<float>& gradient, bf16* to) {
    const std::int64_t threads = block.threads();
    for (std::int64_t begin = 0; begin < groups; begin += kGroupsATurn * threads) {
      const auto values = block.each([&](int thread) {
        Loaded loaded;
        for (int k = 0; k < kGroupsATurn; ++k) {
          const std::int64_t g = begin + thread + k * threads;
          if (g >= groups) continue;
          count_row_read(kGroupSize * sizeof(float));
          loaded.groups[k] = load_group(row, g);
        }
        return loaded;
      });
      block.sync();
      block.run([&](int thread) {
        for (int k = 0; k < kGroupsATurn; ++k) {
          const std::int64_t g = begin + thread + k * threads;
          if (g >= groups) continue;
          Group result;
          for (int i = 0; i < kGroupSize; ++i) {
            result.items[i] = gradient.of_other(block.of(values, thread).groups[k].items[i]);
          }
          count_row_written(kGroupSize * sizeof(bf16));
          store_group(to, g, result);
        }
      });
    }
  }
};

struct LaunchRoundedGradient {
  static constexpr const char* kName = "rounded_gradient";
  CudaRows rows;  // float32
  const float* shift;
  const float* sum;
  const float* grad;
  float* data;

  template <typename Launcher>
  void operator()(Launcher& launcher) const {
    launcher(RoundedGradientKernel{{rows}, shift, sum, grad, data}, rows.rows, 0);
  }
};

}  // namespace lossgrid
