// SPDX-License-Identifier: Apache-2.0
// Kernels over plain arrays: sums, extrema of rows and fills. ForEachElement is the kernel; a
// struct of plain data holds the operation on an element. Where arrays are aligned to 16 bytes, a
// thread moves 16 bytes at once.
#pragma once

#include <algorithm>
#include <cstdint>

#include "harness/device/kernel/vectors.h"

namespace lossgrid {

/// Kernel that calls f(k) for every k < count, in a loop over all threads of `blocks` blocks.
template <typename F>
struct ForEachElement {
  F f;
  std::int64_t count;
  std::int64_t blocks;

  template <typename Block>
  LOSSGRID_KERNEL void operator()(Block& block) const {
    const std::int64_t stride = blocks * block.threads();
    block.run([&](int thread) {
      for (std::int64_t k = block.index() * block.threads() + thread; k < count; k += stride) f(k);
    });
  }
};

/// Launches f for `count` elements.
template <typename Launcher, typename F>
void for_each_element(Launcher& launch, std::int64_t count, const F& f) {
  constexpr std::int64_t kMostBlocks = 4096;
  const std::int64_t needed = (count + kBlockThreads - 1) / kBlockThreads;
  const std::int64_t blocks = std::min(needed, kMostBlocks);
  launch(ForEachElement<F>{f, count, blocks}, blocks, 0);
}

/// Adds four elements at once if both arrays are aligned to 16 bytes, as whole tensors are.
struct AddArray {
  const float* values;
  float* sum;
  std::int64_t count;

  /// Returns the number of k.
  std::int64_t steps() const { return (count + kVectorSize<float> - 1) / kVectorSize<float>; }
  LOSSGRID_KERNEL void operator()(std::int64_t k) const {
    const std::int64_t begin = k * kVectorSize<float>;
    if (is_aligned(values) && is_aligned(sum) && begin + kVectorSize<float> <= count) {
      Vector<float> all = vector_of(sum, true, k);
      const Vector<float> more = vector_of(values, true, k);
      for (int i = 0; i < kVectorSize<float>; ++i) all.items[i] += more.items[i];
      return set_vector(sum, true, k, all);
    }
    for (std::int64_t i = begin; i < count && i < begin + kVectorSize<float>; ++i) {
      sum[i] += values[i];
    }
  }
};

/// Maximum or minimum over rows: the first of equal values; NaN if any value is NaN.
template <typename T>
struct ExtremaOfRows {
  const T* rows;
  int ranks;
  std::int64_t stride;
  bool largest;
  T* out;

  LOSSGRID_KERNEL void operator()(std::int64_t k) const {
    T found = rows[k];
    for (int r = 1; r < ranks; ++r) {
      const T next = rows[r * stride + k];
      const bool further = largest ? next > found : next < found;
      if (found == found && (further || next != next)) found = next;
    }
    out[k] = found;
  }
};

/// Writes a pattern of two bytes, the low byte first. Threads write vectors of 16 bytes; one thread
/// writes the bytes before the first aligned address and after the last whole vector.
struct FillBytes {
  unsigned char* to;
  std::uint16_t pattern;
  std::int64_t bytes;
  std::int64_t head;  // bytes before the first vector
  std::int64_t vectors;

  /// `to` has any alignment.
  FillBytes(void* memory, std::uint16_t two_bytes, std::int64_t size)
      : to(static_cast<unsigned char*>(memory)), pattern(two_bytes), bytes(size) {
    const auto over =
        static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) % kVectorBytes);
    head = std::min(over == 0 ? 0 : kVectorBytes - over, bytes);
    vectors = (bytes - head) / kVectorBytes;
  }

  /// Returns the number of k.
  std::int64_t steps() const { return bytes == 0 ? 0 : vectors + 1; }
  LOSSGRID_KERNEL void operator()(std::int64_t k) const {
    if (k == vectors) {
      for (std::int64_t i = 0; i < head; ++i) to[i] = byte(i);
      for (std::int64_t i = head + vectors * kVectorBytes; i < bytes; ++i) to[i] = byte(i);
      return;
    }
    Vector<unsigned char> vector;
    for (int i = 0; i < kVectorBytes; ++i) vector.items[i] = byte(head + i);
    set_vector(to + head, true, k, vector);
  }

 private:
  LOSSGRID_KERNEL unsigned char byte(std::int64_t i) const {
    return static_cast<unsigned char>(i % 2 == 0 ? pattern & 0xFF : pattern >> 8);
  }
};

}  // namespace lossgrid
