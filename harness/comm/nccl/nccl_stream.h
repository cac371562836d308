// SPDX-License-Identifier: Apache-2.0
// NcclStream: the operations of a rank's device that the NCCL transport needs.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "harness/comm/communicator.h"
#include "harness/device/device.h"
#include "harness/device/memory/staging.h"

namespace lossgrid {

/// Rows [count] of the ranks, `stride` elements apart, f32 or f64.
struct RankRows {
  const std::byte* data;
  int ranks;
  std::size_t stride;
  std::size_t count;
  DType dtype;
};

class NcclStream {
 public:
  /// Wraps the stream of `device`, which outlives the object: the cudaStream_t of collectives.
  explicit NcclStream(Device& device) : device_(device), scratch_(device, MemorySpace::device) {}
  virtual ~NcclStream() = default;

  Device& device() const { return device_; }
  /// Returns memory that kernels reach, valid until the next call. Not accounted for.
  std::byte* scratch(std::size_t bytes) { return scratch_.at_least(bytes); }

  /// Returns true if all launched work is done. Throws its error.
  virtual bool idle() = 0;
  /// Returns true if kernels can read and write `memory`: that of the GPU, or pinned memory of the
  /// host.
  virtual bool reaches(const void* memory) const = 0;
  /// Returns a text that identifies the GPU, unique over machines.
  virtual std::string gpu() const = 0;
  /// Launches out[i] := max or min over the rows, first to last; a NaN stays NaN.
  virtual void reduce(const RankRows& rows, ReduceOp op, void* out) = 0;

 private:
  Device& device_;
  Staging scratch_;
};

/// Makes the stream of `device`, which outlives it. Throws unsupported for the processor.
std::unique_ptr<NcclStream> make_nccl_stream(Device& device);

}  // namespace lossgrid
