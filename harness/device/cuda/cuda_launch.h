// SPDX-License-Identifier: Apache-2.0
// cuda_launch: the table from launches (kernel/launch.h) to their code for GPUs, filled before main
// by the .cu files of a build with CUDA (on_gpu.cuh). nvcc compiles this header.
#pragma once

namespace lossgrid {

/// Function that launches on a CUDA stream and returns null or CUDA's error text. The pointer is
/// null in a build without CUDA, and for launches that no .cu file names.
template <class Launch>
inline const char* (*cuda_launch)(void* stream, const Launch&) = nullptr;

}  // namespace lossgrid
