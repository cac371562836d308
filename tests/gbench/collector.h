// SPDX-License-Identifier: Apache-2.0
// A run of the registered benchmarks of this process with a memory manager, and a reporter that
// keeps the results. Google Benchmark frees memory results after the reporters: they are copied.
#pragma once

#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "harness/gbench/memory_manager.h"

namespace lossgrid {

struct CollectedRun {
  benchmark::BenchmarkReporter::Run run;
  std::int64_t max_bytes_used = -1;  // -1: none was reported
  std::int64_t allocations = -1;
};

class Collector final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context& /*context*/) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      CollectedRun& last = collected.emplace_back();
      last.run = run;
      if (run.memory_result == nullptr) continue;
      last.max_bytes_used = run.memory_result->max_bytes_used;
      last.allocations = run.memory_result->num_allocs;
    }
  }
  std::vector<CollectedRun> collected;
};

/// Runs and unregisters them.
inline std::vector<CollectedRun> run_registered(TrackerMemory& memory) {
  benchmark::RegisterMemoryManager(&memory);
  Collector collector;
  benchmark::RunSpecifiedBenchmarks(&collector, "all");
  benchmark::RegisterMemoryManager(nullptr);
  benchmark::ClearRegisteredBenchmarks();
  return std::move(collector.collected);
}

}  // namespace lossgrid
