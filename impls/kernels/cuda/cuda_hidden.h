// SPDX-License-Identifier: Apache-2.0
// The kernels of hidden_rows.h on the cuda backends. Plain data only: nvcc compiles this header.
#pragma once

#include <cstdint>

#include "harness/core/dtype.h"

namespace lossgrid {

/// As GatheredRows.
struct CudaGatheredRows {
  DType from_dtype;
  const void* from;
  const std::int32_t* source;
  DType to_dtype;
  void* to;
  std::int64_t rows;
  std::int64_t size;
};

/// Each returns when its work is launched on the stream of a device: null, or what CUDA says is
/// wrong.
struct CudaHiddenKernels {
  const char* (*gather_rows)(void* stream, const CudaGatheredRows&);
  const char* (*clear_rows)(void* stream, DType, void* data, const std::uint8_t* keep,
                            std::int64_t rows, std::int64_t size);
  const char* (*round_rows)(void* stream, float* data, std::int64_t rows, std::int64_t size);
  const char* (*write_floats)(void* stream, const float* from, DType, void* to, std::int64_t count);
};

/// On a GPU; null in a build without CUDA.
const CudaHiddenKernels* cuda_hidden_kernels();
/// The same code on the processor.
const CudaHiddenKernels& emulated_hidden_kernels();

}  // namespace lossgrid
