// SPDX-License-Identifier: Apache-2.0
// Settings for the reads of row kernels from memory. Intel's cores keep too few lines in flight on
// their own and wait for memory before they continue with arithmetic. On Intel, kernels prefetch,
// which gains a factor of 1.2 to 1.5, and read several rows, or several places of a row, side by
// side, which gains up to a further 1.24 (docs/cpu-kernels.md). On AMD a prefetch costs 1 to 2 %,
// and a core reads one row at 93 to 99 % of the memory's rate.
#pragma once

#include <cstdint>

namespace lossgrid {

inline constexpr std::int64_t kPrefetchBytes = 8192;
// Bytes of prefetch for each of several rows that are read side by side.
inline constexpr std::int64_t kPrefetchBytesSideBySide = 4096;

/// True if kernels prefetch and read side by side. Depends on the processor, unless a test sets it.
inline bool& reads_side_by_side() {
#if defined(__x86_64__)
  static bool helps = __builtin_cpu_is("intel") != 0;
#else
  static bool helps = true;
#endif
  return helps;
}

/// True if rows of `bytes` bytes are read side by side. Rows shorter than `least` form one stream
/// of memory, and are faster one after the other.
inline bool are_read_side_by_side(std::int64_t bytes, std::int64_t least) {
  return reads_side_by_side() && bytes >= least;
}

template <typename T>
std::int64_t prefetch_elements() {
  return reads_side_by_side() ? kPrefetchBytes / static_cast<std::int64_t>(sizeof(T)) : 0;
}

}  // namespace lossgrid
