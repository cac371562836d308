// SPDX-License-Identifier: Apache-2.0
// What the memory of this machine can do: kernels that read, copy or change it and do nothing else,
// with the threads of the rank. The time of a loss is compared with theirs on as many bytes, so
// they must not be slower than need be: which stores and which prefetch are best differs between
// processors, sizes and moments, so there are several ways to do the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace lossgrid {

enum class MemoryKernel {
  read,    // sums the 4-byte words of `from` as unsigned integers, modulo 2^32
  copy,    // `from` to `to`, which do not overlap
  update,  // changes the sign bit of every 4-byte word of `to`, in place
};

/// Ways to do the same. Prefetch is by software, 4 KiB ahead into the second cache; streaming
/// stores go past the caches; library is memcpy, of copy only; eight_places, of read only, goes
/// through eighths of its part side by side, so that the processor's own prefetch follows all of
/// them.
enum class MemoryVariant { plain, prefetch, streaming, streaming_prefetch, library, eight_places };

std::string_view name(MemoryKernel kernel);
std::string_view name(MemoryVariant variant);

/// The variants that `kernel` has.
std::span<const MemoryVariant> variants_of(MemoryKernel kernel);

/// One pass over `bytes` of memory with the threads of the rank. `from` is of read and copy, `to`
/// of copy and update; read and update leave out the last bytes % 4. Returns the sum of read, else
/// 0.
std::uint32_t run_memory_kernel(MemoryKernel kernel, MemoryVariant variant, const void* from,
                                void* to, std::size_t bytes);

}  // namespace lossgrid
