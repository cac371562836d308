// SPDX-License-Identifier: Apache-2.0
// Internal to the memory kernels: one pass over memory by the calling thread, in every way to make
// it that may be the fastest on some machine. Vectors are as wide as the processor has them
// (Highway, chosen at run time).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "harness/measure/memory_kernels.h"

namespace lossgrid {

/// The pass of `kernel` over bytes [begin, end) of its buffers, as run_memory_kernel describes it.
/// Streaming stores begin at the first multiple of 64 bytes; there are none where `to` is not on a
/// multiple of 4.
std::uint32_t sweep_memory(MemoryKernel kernel, MemoryVariant variant, const std::byte* from,
                           std::byte* to, std::size_t begin, std::size_t end);

/// The instructions that passes use here: "AVX2", "AVX3" for AVX-512, "EMU128" for none.
std::string_view memory_sweep_target();

}  // namespace lossgrid
