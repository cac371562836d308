// SPDX-License-Identifier: Apache-2.0
// One pass over memory by the calling thread, in all variants; internal to the memory kernels.
// Vectors are as wide as the processor's (Highway, chosen at run time).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "harness/measure/memory_kernels.h"

namespace lossgrid {

/// Makes the pass of `kernel` over bytes [begin, end) of its buffers, see run_memory_kernel.
/// Streaming stores begin at the first multiple of 64 bytes; plain stores are used if `to` is not
/// on a multiple of 4.
std::uint32_t sweep_memory(MemoryKernel kernel, MemoryVariant variant, const std::byte* from,
                           std::byte* to, std::size_t begin, std::size_t end);

/// Returns the instruction set in use: "AVX2", "AVX3" for AVX-512, "NEON", "SCALAR" without
/// vectors. Lets tests verify that they run on every set.
std::string_view memory_sweep_target();

}  // namespace lossgrid
