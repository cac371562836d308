// SPDX-License-Identifier: Apache-2.0
// TrackerMemory: the source of Google Benchmark's max_bytes_used and allocs_per_iter, with the
// numbers of the memory tracker, not those of the process. After the timed iterations of a
// benchmark Google Benchmark calls Start, the benchmark once more with at most 16 iterations, and
// Stop. In between the benchmark adds the numbers of its device's tracker. That call is not timed.
#pragma once

#include <cstdint>

#include <benchmark/benchmark.h>

#include "harness/device/memory/memory_tracker.h"

namespace lossgrid {

class TrackerMemory final : public benchmark::MemoryManager {
 public:
  using benchmark::MemoryManager::Stop;
  void Start() override;
  void Stop(Result* result) override;

  /// True in the call between Start and Stop.
  bool measuring() const { return measuring_; }

  /// Adds a phase: its peak, of which the largest counts, and its allocations, which are added up,
  /// of all iterations of the call together.
  void add(std::int64_t peak_bytes, std::int64_t allocations);
  /// Adds all phases of a tracker.
  void add(const MemoryTracker& tracker);

 private:
  bool measuring_ = false;
  std::int64_t peak_bytes_ = 0;
  std::int64_t allocations_ = 0;
};

}  // namespace lossgrid
