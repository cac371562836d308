// SPDX-License-Identifier: Apache-2.0
// The kernels of hidden_rows.h for GPUs, one block of threads a row, and their launches.
#pragma once

#include "harness/device/kernel/portable.h"
#include "impls/kernels/gathered_rows.h"

namespace lossgrid {

/// Calls f(i) for every i < size, shared by the threads of a block.
template <typename Block, typename F>
LOSSGRID_KERNEL void for_each_column(Block& block, std::int64_t size, F&& f) {
  block.run([&](int thread) {
    for (std::int64_t i = thread; i < size; i += block.threads()) f(i);
  });
}

template <typename From, typename To>
struct GatherRowsKernel {
  GatheredRows rows;

  template <typename Block>
  LOSSGRID_KERNEL void operator()(Block& block) const {
    const std::int32_t source = rows.source[block.index()];
    const From* from = static_cast<const From*>(rows.from) + source * rows.size;
    To* to = static_cast<To*>(rows.to) + block.index() * rows.size;
    for_each_column(block, rows.size,
                    [&](std::int64_t i) { store(source < 0 ? 0.0f : to_float(from[i]), to[i]); });
  }
};

template <typename T>
struct ClearRowsKernel {
  T* data;
  const std::uint8_t* keep;
  std::int64_t size;

  template <typename Block>
  LOSSGRID_KERNEL void operator()(Block& block) const {
    if (keep[block.index()] != 0) return;
    T* row = data + block.index() * size;
    for_each_column(block, size, [&](std::int64_t i) { store(0.0f, row[i]); });
  }
};

/// In each turn the block reads floats, then writes half as many bytes: it overwrites only elements
/// read in this turn or before.
struct RoundRowsKernel {
  float* data;
  std::int64_t size;

  template <typename Block>
  LOSSGRID_KERNEL void operator()(Block& block) const {
    const float* row = data + block.index() * size;
    auto* rounded = reinterpret_cast<bf16*>(data + block.index() * size);
    for (std::int64_t begin = 0; begin < size; begin += block.threads()) {
      const auto values = block.each(
          [&](int thread) { return begin + thread < size ? row[begin + thread] : 0.0f; });
      block.sync();
      block.run([&](int thread) {
        if (begin + thread < size) store(block.of(values, thread), rounded[begin + thread]);
      });
      block.sync();
    }
  }
};

template <typename T>
struct WriteFloatsKernel {
  const float* from;
  T* to;
  std::int64_t count;

  static constexpr std::int64_t kElements = 8 * kBlockThreads;

  template <typename Block>
  LOSSGRID_KERNEL void operator()(Block& block) const {
    const std::int64_t begin = block.index() * kElements;
    const std::int64_t left = count - begin;
    for_each_column(block, left < kElements ? left : kElements,
                    [&](std::int64_t i) { store(from[begin + i], to[begin + i]); });
  }
};

// Launches (launch.h).

struct LaunchGatherRows {
  static constexpr const char* kName = "gather_rows";
  GatheredRows rows;

  template <typename Launcher>
  void operator()(Launcher& launcher) const {
    if (rows.from_dtype == DType::f32) {
      launcher(GatherRowsKernel<float, float>{rows}, rows.rows, 0);
    } else if (rows.to_dtype == DType::f32) {
      launcher(GatherRowsKernel<bf16, float>{rows}, rows.rows, 0);
    } else {
      launcher(GatherRowsKernel<bf16, bf16>{rows}, rows.rows, 0);
    }
  }
};

struct LaunchClearRows {
  static constexpr const char* kName = "clear_rows";
  DType dtype;
  void* data;
  const std::uint8_t* keep;
  std::int64_t rows;
  std::int64_t size;

  template <typename Launcher>
  void operator()(Launcher& launcher) const {
    if (dtype == DType::bf16) {
      launcher(ClearRowsKernel<bf16>{static_cast<bf16*>(data), keep, size}, rows, 0);
    } else {
      launcher(ClearRowsKernel<float>{static_cast<float*>(data), keep, size}, rows, 0);
    }
  }
};

struct LaunchRoundRows {
  static constexpr const char* kName = "round_rows";
  float* data;
  std::int64_t rows;
  std::int64_t size;

  template <typename Launcher>
  void operator()(Launcher& launcher) const {
    launcher(RoundRowsKernel{data, size}, rows, 0);
  }
};

struct LaunchWriteFloats {
  static constexpr const char* kName = "write_floats";
  const float* from;
  DType to_dtype;
  void* to;
  std::int64_t count;

  template <typename Launcher>
  void operator()(Launcher& launcher) const {
    constexpr std::int64_t kElements = WriteFloatsKernel<float>::kElements;
    const std::int64_t blocks = (count + kElements - 1) / kElements;
    if (to_dtype == DType::bf16) {
      launcher(WriteFloatsKernel<bf16>{from, static_cast<bf16*>(to), count}, blocks, 0);
    } else {
      launcher(WriteFloatsKernel<float>{from, static_cast<float*>(to), count}, blocks, 0);
    }
  }
};

}  // namespace lossgrid
