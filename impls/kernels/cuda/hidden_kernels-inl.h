// SPDX-License-Identifier: Apache-2.0
// Kernels of hidden_rows.h for GPUs, with one block of threads per row, and their launches. Where
// rows are aligned to 16 bytes, a thread moves eight elements at once.
#pragma once

#include "harness/device/kernel/vectors.h"
#include "impls/kernels/gathered_rows.h"

namespace lossgrid {

inline constexpr int kGroupSize = 8;

/// Eight elements in float32.
struct Group {
  float items[kGroupSize] = {};
};

template <typename T>
LOSSGRID_KERNEL Group load_group(const T* row, std::int64_t g) {
  constexpr int kVectors = kGroupSize / kVectorSize<T>;
  Group group;
  for (int k = 0; k < kVectors; ++k) {
    const Vector<T> x = vector_of(row, true, g * kVectors + k);
    for (int i = 0; i < kVectorSize<T>; ++i) {
      group.items[k * kVectorSize<T> + i] = to_float(x.items[i]);
    }
  }
  return group;
}

template <typename T>
LOSSGRID_KERNEL void store_group(T* row, std::int64_t g, const Group& group) {
  constexpr int kVectors = kGroupSize / kVectorSize<T>;
  for (int k = 0; k < kVectors; ++k) {
    Vector<T> x;
    for (int i = 0; i < kVectorSize<T>; ++i) {
      store(group.items[k * kVectorSize<T> + i], x.items[i]);
    }
    set_vector(row, true, g * kVectors + k, x);
  }
}

/// Calls of_group(g) for the groups of a row and of_element(i) for the elements after the last
/// whole group, or for all elements if the row is not aligned. The threads of a block share the
/// calls.
template <typename Block, typename OfGroup, typename OfElement>
LOSSGRID_KERNEL void for_each_column(Block& block, std::int64_t size, bool aligned,
                                     OfGroup&& of_group, OfElement&& of_element) {
  const std::int64_t groups = aligned ? size / kGroupSize : 0;
  block.run([&](int thread) {
    for (std::int64_t g = thread; g < groups; g += block.threads()) of_group(g);
    for (std::int64_t i = groups * kGroupSize + thread; i < size; i += block.threads()) {
      of_element(i);
    }
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
    for_each_column(
        block, rows.size, is_aligned(to) && (source < 0 || is_aligned(from)),
        [&](std::int64_t g) { store_group(to, g, source < 0 ? Group() : load_group(from, g)); },
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
    for_each_column(
        block, size, is_aligned(row), [&](std::int64_t g) { store_group(row, g, Group()); },
        [&](std::int64_t i) { store(0.0f, row[i]); });
  }
};

/// In each turn the block reads floats, then writes half as many bytes: it overwrites only elements
/// that all threads have read in this turn or before, and never elements that a later turn reads.
struct RoundRowsKernel {
  float* data;
  std::int64_t size;

  template <typename Block>
  LOSSGRID_KERNEL void operator()(Block& block) const {
    const float* row = data + block.index() * size;
    auto* rounded = reinterpret_cast<bf16*>(data + block.index() * size);
    const std::int64_t groups = is_aligned(row) ? size / kGroupSize : 0;
    for (std::int64_t begin = 0; begin < groups; begin += block.threads()) {
      const auto values = block.each([&](int thread) {
        return begin + thread < groups ? load_group(row, begin + thread) : Group();
      });
      block.sync();
      block.run([&](int thread) {
        if (begin + thread < groups) {
          store_group(rounded, begin + thread, block.of(values, thread));
        }
      });
    }
    for (std::int64_t begin = groups * kGroupSize; begin < size; begin += block.threads()) {
      const auto values = block.each(
          [&](int thread) { return begin + thread < size ? row[begin + thread] : 0.0f; });
      block.sync();
      block.run([&](int thread) {
        if (begin + thread < size) store(block.of(values, thread), rounded[begin + thread]);
      });
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
    for_each_column(
        block, left < kElements ? left : kElements, is_aligned(from) && is_aligned(to),
        [&](std::int64_t g) { store_group(to + begin, g, load_group(from + begin, g)); },
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
