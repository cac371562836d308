// SPDX-License-Identifier: Apache-2.0
// Benchmarks add their memory in every call, the timed ones too; Start discards earlier numbers.
#include "harness/gbench/memory_manager.h"

#include <algorithm>

namespace lossgrid {

void TrackerMemory::Start() {
  measuring_ = true;
  peak_bytes_ = 0;
  allocations_ = 0;
}

void TrackerMemory::Stop(Result* result) {
  measuring_ = false;
  result->max_bytes_used = peak_bytes_;
  result->num_allocs = allocations_;
}

void TrackerMemory::add(std::int64_t peak_bytes, std::int64_t allocations) {
  peak_bytes_ = std::max(peak_bytes_, peak_bytes);
  allocations_ += allocations;
}

void TrackerMemory::add(const MemoryTracker& tracker) {
  for (const PhaseMemory& phase : tracker.phases()) add(phase.peak_bytes, phase.allocations);
}

}  // namespace lossgrid
