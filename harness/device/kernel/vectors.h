// SPDX-License-Identifier: Apache-2.0
// Vectors of 16 bytes in kernels: the most that a thread reads or writes at once, where memory is
// aligned to it.
#pragma once

#include <cstdint>
#include <cstring>

#include "harness/device/kernel/portable.h"

namespace lossgrid {

/// Elements of a vector.
template <typename T>
inline constexpr int kVectorSize = kVectorBytes / static_cast<int>(sizeof(T));

template <typename T>
struct alignas(kVectorBytes) Vector {
  T items[kVectorSize<T>];
};

/// True if vectors from `row` on can be read and written at once.
template <typename T>
LOSSGRID_KERNEL bool is_aligned(const T* row) {
  return reinterpret_cast<std::uintptr_t>(row) % kVectorBytes == 0;
}

/// Returns vector v of a row; `aligned`: as is_aligned, else element by element.
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
