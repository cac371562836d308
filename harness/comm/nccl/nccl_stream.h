// SPDX-License-Identifier: Apache-2.0
// What the NCCL transport needs of the device of a rank.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "harness/comm/communicator.h"
#include "harness/device/device.h"
#include "harness/device/memory/staging.h"

namespace lossgrid {

/// `ranks` rows [count] that stand `stride` elements apart, f32 or f64.
struct RankRows {
  const std::byte* data;
  int ranks;
  std::size_t stride;
  std::size_t count;
  DType dtype;
};

class NcclStream {
 public:
  /// `device` outlives the object. Its stream is the cudaStream_t that collectives are launched on.
  explicit NcclStream(Device& device) : device_(device), scratch_(device, MemorySpace::device) {}
  virtual ~NcclStream() = default;

  Device& device() const { return device_; }
  /// Memory that kernels reach, until the next call. Accounted for nowhere.
  std::byte* scratch(std::size_t bytes) { return scratch_.at_least(bytes); }

  /// Whether all that was launched is done. Throws what the device says is wrong.
  virtual bool idle() = 0;
  /// Whether kernels can read and write `memory`: that of the GPU, or of the host and pinned.
  virtual bool reaches(const void* memory) const = 0;
  /// A text that no other GPU has, of any machine.
  virtual std::string gpu() const = 0;
  /// Launches out[i] := max or min over the rows, first to last; a NaN stays one.
  virtual void reduce(const RankRows& rows, ReduceOp op, void* out) = 0;

 private:
  Device& device_;
  Staging scratch_;
};

/// Of `device`, which outlives it. Throws unsupported for that of the processor.
std::unique_ptr<NcclStream> make_nccl_stream(Device& device);

}  // namespace lossgrid
