// SPDX-License-Identifier: Apache-2.0
// Gradients that are written past the caches, in whole cache lines.
#pragma once

#include <algorithm>
#include <cstdint>

#include "impls/kernels/rows.h"

namespace lossgrid {

/// Returns the number of elements before the first element of `out` that starts a cache line.
template <typename T>
std::int64_t before_line(const T* out, std::int64_t count) {
  const std::uintptr_t over = reinterpret_cast<std::uintptr_t>(out) % 64;
  const auto elements = static_cast<std::int64_t>((over == 0 ? 0 : 64 - over) / sizeof(T));
  return std::min(count, elements);
}

}  // namespace lossgrid
