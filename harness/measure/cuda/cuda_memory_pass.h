// SPDX-License-Identifier: Apache-2.0
// Passes over memory on the cuda backends. Plain data only: nvcc compiles this header.
#pragma once

#include <cstdint>

#include "harness/device/kernel/block_sums.h"
#include "harness/measure/memory_kernels.h"

namespace lossgrid {

/// Arguments of run_memory_kernel, with `from` and `to` on multiples of 16 bytes.
struct CudaMemoryPass {
  MemoryKernel kernel;
  MemoryVariant variant;  // plain, streaming, persistent or library
  const void* from;
  void* to;
  std::int64_t bytes;
  std::uint32_t* sums;  // [piece_count(bytes)]: sums of read by block, then 0
};

/// Bytes of a block of threads: 32 KiB.
inline constexpr std::int64_t kPassPieceBytes =
    std::int64_t{kVectorsATurn} * kVectorBytes * kBlockThreads;

/// Returns the number of pieces, at least one; the last bytes belong to the last piece.
constexpr std::int64_t piece_count(std::int64_t bytes) {
  return bytes > kPassPieceBytes ? (bytes + kPassPieceBytes - 1) / kPassPieceBytes : 1;
}

/// Launches the pass on `stream`. Returns null, or the error text of CUDA.
const char* cuda_memory_pass(void* stream, const CudaMemoryPass& pass);

}  // namespace lossgrid
