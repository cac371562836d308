// SPDX-License-Identifier: Apache-2.0
// What the memory of a rank's device can do: the passes of memory_kernels.h, with the threads of
// the rank on the processor, as kernels on a GPU or its emulation. There they are launched, not
// waited for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "harness/device/device.h"
#include "harness/measure/memory_kernels.h"

namespace lossgrid {

/// The variants that `kernel` has on the backend. On a GPU `streaming` says of every load and store
/// that it may leave the caches first, and `library` is cudaMemcpyAsync.
std::span<const MemoryVariant> variants_of(MemoryKernel kernel, Backend backend);

/// Passes over up to `bytes` of a device's memory.
class DeviceMemory {
 public:
  /// `device` outlives the object.
  DeviceMemory(Device& device, std::int64_t bytes);
  /// What the object allocates for that.
  static std::int64_t memory_bytes(std::int64_t bytes, Backend backend);

  /// As run_memory_kernel. On a GPU `from` and `to` are on multiples of 16 bytes; a launch that
  /// fails throws internal.
  void run(MemoryKernel kernel, MemoryVariant variant, const void* from, void* to,
           std::int64_t bytes);

  /// Waits. The sum that the last read on a GPU, over as many bytes, found.
  std::uint32_t sum_of_read(std::int64_t bytes);

 private:
  Device& device_;
  DeviceArray<std::uint32_t> sums_;
};

}  // namespace lossgrid
