// SPDX-License-Identifier: Apache-2.0
// Memory of the host, 64-byte aligned, and its copies and fills by the threads of the rank, for
// devices on the processor.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

#include "harness/core/error.h"
#include "harness/device/kernel/rank_threads.h"

namespace lossgrid {

inline constexpr std::align_val_t kHostAlignment{64};

/// Allocates `bytes`. Throws not_enough_memory.
inline std::byte* acquire_on_host(std::size_t bytes) {
  void* block = ::operator new(bytes, kHostAlignment, std::nothrow);
  if (block == nullptr) {
    throw Error(ErrorCode::not_enough_memory, fmt::format("cannot allocate {} bytes", bytes));
  }
  return static_cast<std::byte*>(block);
}

inline void release_on_host(std::byte* block) noexcept {
  ::operator delete(block, kHostAlignment);
}

inline void copy_on_host(void* to, const void* from, std::size_t bytes) {
  constexpr std::size_t kWorthATeam = std::size_t{1} << 20;
  if (bytes < kWorthATeam) {
    std::memcpy(to, from, bytes);
    return;
  }
  parallel_for(static_cast<std::int64_t>(bytes), [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin,
                static_cast<std::size_t>(end - begin));
  });
}

/// Fills `bytes` with a pattern of two bytes; an odd byte at the end gets the first byte of the
/// pattern. `to` may have any alignment.
inline void fill_on_host(void* to, std::uint16_t pattern, std::size_t bytes) {
  const std::byte of_pattern[] = {std::byte(pattern & 0xFF), std::byte(pattern >> 8)};
  const bool aligned = reinterpret_cast<std::uintptr_t>(to) % alignof(std::uint16_t) == 0;
  const std::size_t whole = aligned ? bytes / sizeof(pattern) : 0;
  std::fill_n(static_cast<std::uint16_t*>(to), whole, pattern);
  for (std::size_t k = whole * sizeof(pattern); k < bytes; ++k) {
    static_cast<std::byte*>(to)[k] = of_pattern[k % 2];
  }
}

}  // namespace lossgrid
