// SPDX-License-Identifier: Apache-2.0
// Vectors of 16 bytes in kernels: the most that a thread reads or writes at once, in memory aligned
// to 16 bytes.
#pragma once

#include <cstdint>
#include <cstring>

#include "harness/device/kernel/portable.h"

namespace lossgrid {

/// Number of elements in a vector.
template <typename T>
inline constexpr int kVectorSize = kVectorBytes / static_cast<int>(sizeof(T));

template <typename T>
struct alignas(kVectorBytes) Vector {
  T items[kVectorSize<T>];
};

/// True if `row` is aligned, so that its vectors can be read and written at once.
template <typename T>
LOSSGRID_KERNEL bool is_aligned(const T* row) {
  return reinterpret_cast<std::uintptr_t>(row) % kVectorBytes == 0;
}

/// Returns the number of elements before the first element on a multiple of 16 bytes.
template <typename T>
LOSSGRID_KERNEL int elements_to_alignment(const T* row) {
  const auto over = static_cast<int>(reinterpret_cast<std::uintptr_t>(row) % kVectorBytes);
  return over == 0 ? 0 : (kVectorBytes - over) / static_cast<int>(sizeof(T));
}

/// Four words of 32 bits, as one aligned vector in memory.
struct alignas(kVectorBytes) VectorWords {
  std::uint32_t words[4];
};

/// Returns the 16 bytes at `from`, a multiple of 16.
#ifndef __CUDACC__
// The bytes may reach beyond both ends of a row, but stay in mapped memory. Another thread may
// write the bytes outside of the row, which are never used.
__attribute__((no_sanitize("address", "thread")))
#endif
LOSSGRID_KERNEL VectorWords
words_at(const unsigned char* from) {
#ifdef __CUDACC__
  return *reinterpret_cast<const VectorWords*>(from);
#else
  using Word [[gnu::may_alias]] = const volatile std::uint32_t;
  const auto* words = reinterpret_cast<Word*>(from);
  return {{words[0], words[1], words[2], words[3]}};
#endif
}

/// Returns the lower 32 bits of high:low, shifted right by 0 to 31 bits.
LOSSGRID_KERNEL std::uint32_t shifted_words(std::uint32_t low, std::uint32_t high, unsigned bits) {
#ifdef __CUDACC__
  return __funnelshift_r(low, high, bits);
#else
  return static_cast<std::uint32_t>((std::uint64_t{high} << 32 | low) >> bits);
#endif
}

/// Returns vector v of a row: at once if `aligned` (is_aligned), else element by element.
template <typename T>
LOSSGRID_KERNEL Vector<T> vector_of(const T* row, bool aligned, std::int64_t v) {
  Vector<T> x;
  if (aligned) {
#ifdef __CUDACC__
    x = reinterpret_cast<const Vector<T>*>(row)[v];
#else
    std::memcpy(static_cast<void*>(&x), row + v * kVectorSize<T>, sizeof x);
#endif
    return x;
  }
  for (int k = 0; k < kVectorSize<T>; ++k) x.items[k] = row[v * kVectorSize<T> + k];
  return x;
}

/// Returns vector v of a row that is not aligned. A vector of eight elements is cut from two loads
/// of the aligned vectors around it: eight loads of two bytes would take four times as long as
/// memory. Larger elements are loaded one by one, which takes fewer registers.
template <typename T>
LOSSGRID_KERNEL Vector<T> unaligned_vector(const T* row, std::int64_t v) {
  if constexpr (sizeof(T) > 2) return vector_of(row, false, v);
  const auto* from = reinterpret_cast<const unsigned char*>(row + v * kVectorSize<T>);
  const auto over = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(from) % kVectorBytes);
  const VectorWords low = words_at(from - over);
  const VectorWords high = words_at(from - over + kVectorBytes);
  std::uint32_t all[9] = {low.words[0],  low.words[1],  low.words[2],
                          low.words[3],  high.words[0], high.words[1],
                          high.words[2], high.words[3], 0};
  // Constant indices keep the words in registers.
  for (int k = 0; k < 6; ++k) all[k] = (over & 8U) != 0 ? all[k + 2] : all[k];
  for (int k = 0; k < 5; ++k) all[k] = (over & 4U) != 0 ? all[k + 1] : all[k];
  VectorWords words;
  for (int k = 0; k < 4; ++k) words.words[k] = shifted_words(all[k], all[k + 1], over % 4 * 8);
  Vector<T> x;
  memcpy(static_cast<void*>(&x), &words, sizeof x);
  return x;
}

template <typename T>
LOSSGRID_KERNEL void set_vector(T* row, bool aligned, std::int64_t v, const Vector<T>& x) {
  if (aligned) {
#ifdef __CUDACC__
    reinterpret_cast<Vector<T>*>(row)[v] = x;
#else
    std::memcpy(static_cast<void*>(row + v * kVectorSize<T>), &x, sizeof x);
#endif
    return;
  }
  for (int k = 0; k < kVectorSize<T>; ++k) row[v * kVectorSize<T> + k] = x.items[k];
}

}  // namespace lossgrid
