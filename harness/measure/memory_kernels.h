// SPDX-License-Identifier: Apache-2.0
// What the memory of this machine can do: kernels that read, copy or change it and do nothing else,
// with the threads of the rank. The time of a loss is compared with theirs on as many bytes, so
// they must not be slower than need be: which stores and which prefetch are best differs between
// processors, and is measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace lossgrid {

enum class MemoryKernel {
  read,    // sums the 4-byte words of `from` as unsigned integers, modulo 2^32
  copy,    // `from` to `to`, which do not overlap
  update,  // changes the sign bit of every 4-byte word of `to`, in place
};

/// Ways to do the same. Prefetch is by software, 4 KiB ahead into the second cache; streaming
/// stores go past the caches; library is memcpy, of copy only.
enum class MemoryVariant { plain, prefetch, streaming, streaming_prefetch, library };

std::string_view name(MemoryKernel kernel);
std::string_view name(MemoryVariant variant);

/// The variants that `kernel` has.
std::span<const MemoryVariant> variants_of(MemoryKernel kernel);

/// One pass over `bytes` of memory. `from` is of read and copy, `to` of copy and update; read and
/// update leave out the last bytes % 4. Returns the sum of read, else 0. Buffers that a cache of
/// one core holds take the plain variant. Of larger ones, the first call for a kernel, a size up to
/// the next power of two and a number of threads tries all variants on the buffers it is given (40
/// passes at most), and the fastest is kept for the process: call once before the clock runs.
std::uint32_t run_memory_kernel(MemoryKernel kernel, const void* from, void* to, std::size_t bytes);

/// The same in the given variant; nothing is measured.
std::uint32_t run_memory_kernel(MemoryKernel kernel, MemoryVariant variant, const void* from,
                                void* to, std::size_t bytes);

/// What was chosen so far in this process, as text for a report: "AVX3; copy up to 64 MiB, 2
/// threads: streaming".
std::string memory_kernel_details();

/// The variant with the least time. All are timed in turn, an even number of times.
MemoryVariant fastest_variant(std::span<const MemoryVariant> variants,
                              const std::function<std::int64_t(MemoryVariant)>& time_ns);

}  // namespace lossgrid
