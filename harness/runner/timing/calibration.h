// SPDX-License-Identifier: Apache-2.0
// Measures this machine: the numbers of a Machine whose ranks share the cores of its processor.
// Memory and caches by passes, products by the ceilings of a timing, row kernels and what a phase
// and a row cost by timings of `fused` that a cache holds, links by collectives of ranks that do
// nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/measure/collective_times.h"
#include "harness/planner/model/machine.h"
#include "harness/runner/job/ranks.h"

namespace lossgrid {

struct CalibrationRequest {
  std::string name;
  std::int64_t memory_pass_bytes =
      0;                   // of an array that no cache holds; 0: 16 times the last cache
  double max_seconds = 2;  // of each timing
};

/// Measures everything but the links; the machine has no transports. Ranks are threads.
Machine measure_machine(const CalibrationRequest& request);

/// Measures the collectives of 2, 4, ... ranks, 8 at most. Every process of a job calls it.
std::vector<CollectiveSample> measure_links(const Ranks& ranks);

}  // namespace lossgrid
