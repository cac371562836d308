// SPDX-License-Identifier: Apache-2.0
// Memory kernels: passes that read, copy or change memory and do nothing else, with the threads of
// the rank. Their time is a lower bound for a loss on the same number of bytes, so they must be
// fast. The best stores and prefetch differ between processors, sizes and moments, so each kernel
// has several variants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace lossgrid {

enum class MemoryKernel {
  read,    // sum of the 4-byte words of `from` as unsigned integers, modulo 2^32
  copy,    // `to` := `from`, which do not overlap
  update,  // flip of the sign bit of every 4-byte word of `to`, in place
};

/// Variants of a kernel. Prefetch is by software, 4 KiB ahead into the second cache; streaming
/// stores bypass the caches; library is memcpy (copy only); eight_places (read only) reads the
/// eighths of its part side by side, so that the processor's own prefetch follows all of them.
enum class MemoryVariant {
  plain,
  prefetch,
  streaming,
  streaming_prefetch,
  library,
  eight_places,
  persistent,  // on GPUs only
};

std::string_view name(MemoryKernel kernel);
std::string_view name(MemoryVariant variant);

/// Returns the variants of `kernel`.
std::span<const MemoryVariant> variants_of(MemoryKernel kernel);

/// Makes one pass over `bytes` of memory with the threads of the rank. `from` is used by read and
/// copy, `to` by copy and update; read and update leave out the last bytes % 4. Returns the sum of
/// a read, 0 for other kernels.
std::uint32_t run_memory_kernel(MemoryKernel kernel, MemoryVariant variant, const void* from,
                                void* to, std::size_t bytes);

}  // namespace lossgrid
