// SPDX-License-Identifier: Apache-2.0
// Memory history as the JSON of pytorch.org/memory_viz, the result of torch.cuda.memory._snapshot
// ("segments", "device_traces"; torch/cuda/_memory_viz.py). The device number is the rank. Buffers
// come from the allocator one by one, so each buffer is a segment with one block, and every
// allocation and release is also an allocation and release of a segment.
#pragma once

#include <cstdint>
#include <string>

#include "harness/device/memory/memory_history.h"

namespace lossgrid {

/// Origin of a history, named in frames and metadata.
struct SnapshotSubject {
  int rank = 0;
  std::int64_t step = 0;
  std::string trial;           // id of the trial
  std::string implementation;  // in a timing, all compared implementations
};

/// Returns the JSON text.
std::string memory_snapshot(const MemoryHistory& history, const SnapshotSubject& subject);

}  // namespace lossgrid
