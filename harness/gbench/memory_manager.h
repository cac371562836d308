// SPDX-License-Identifier: Apache-2.0
// What Google Benchmark shows as max_bytes_used and allocs_per_iter: the numbers of the memory
// tracker, not those of the process. Behind the timed iterations of a benchmark Google Benchmark
// calls Start, the benchmark once more with at most 16 iterations, and Stop; in between the
// benchmark says what the tracker of its device found. That call is not timed.
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

  /// Whether the call is the one between Start and Stop.
  bool measuring() const { return measuring_; }

  /// Peak of a phase and buffers asked for in it, by all iterations of the call together. The
  /// largest peak counts, the sum of allocations.
  void add(std::int64_t peak_bytes, std::int64_t allocations);
  /// All phases of a tracker.
  void add(const MemoryTracker& tracker);

 private:
  bool measuring_ = false;
  std::int64_t peak_bytes_ = 0;
  std::int64_t allocations_ = 0;
};

}  // namespace lossgrid
