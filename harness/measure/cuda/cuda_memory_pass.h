// SPDX-License-Identifier: Apache-2.0
// Passes over memory on the cuda backends. Plain data only: nvcc compiles this header.
#pragma once

#include <cstdint>

#include "harness/measure/memory_kernels.h"

namespace lossgrid {

/// As run_memory_kernel has it, but that `from` and `to` are on multiples of 16 bytes.
struct CudaMemoryPass {
  MemoryKernel kernel;
  MemoryVariant variant;  // plain, streaming or library
  const void* from;
  void* to;
  std::int64_t bytes;
  std::uint32_t* sums;  // [pieces_of(bytes)]: of read, one sum for each piece
};

/// What a block of threads goes over.
inline constexpr std::int64_t kPassPieceBytes = 32 * 1024;

/// At least one: the last bytes are with the last piece.
constexpr std::int64_t pieces_of(std::int64_t bytes) {
  return bytes > kPassPieceBytes ? (bytes + kPassPieceBytes - 1) / kPassPieceBytes : 1;
}

/// Launches on `stream`: null, or what CUDA says is wrong.
const char* cuda_memory_pass(void* stream, const CudaMemoryPass& pass);

}  // namespace lossgrid
