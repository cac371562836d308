// SPDX-License-Identifier: Apache-2.0
// DeviceMemory: the passes of memory_kernels.h over memory of a rank's device, with the threads of
// the rank on the processor, as kernels on a GPU or its emulation. Kernels are launched without
// waiting for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "harness/device/device.h"
#include "harness/measure/memory_kernels.h"

namespace lossgrid {

/// Returns the variants of `kernel` on the backend. On a GPU `streaming` marks every load and store
/// as first to leave the caches, and `library` is cudaMemcpyAsync.
std::span<const MemoryVariant> variants_of(MemoryKernel kernel, Backend backend);

/// Passes over up to `bytes` of a device's memory.
class DeviceMemory {
 public:
  /// `device` outlives the object.
  DeviceMemory(Device& device, std::int64_t bytes);
  /// Returns the bytes that an object allocates for passes over `bytes`.
  static std::int64_t memory_bytes(std::int64_t bytes, Backend backend);

  /// Makes the pass of run_memory_kernel. On a GPU `from` and `to` are on multiples of 16 bytes.
  /// Throws internal if a launch fails.
  void run(MemoryKernel kernel, MemoryVariant variant, const void* from, void* to,
           std::int64_t bytes);

  /// Waits, then returns the sum of the last read on a GPU, which was over `bytes`.
  std::uint32_t sum_of_read(std::int64_t bytes);

 private:
  Device& device_;
  DeviceArray<std::uint32_t> sums_;
};

}  // namespace lossgrid
