// SPDX-License-Identifier: Apache-2.0
// GpuRow: clocks, power and temperature of a rank's GPU while a timing ran, by NVML.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lossgrid {

struct GpuRow {
  std::int64_t rank = 0;
  std::string reason;  // why nothing is known; empty: something is
  std::int64_t least_sm_mhz = 0;
  std::int64_t most_sm_mhz = 0;
  std::int64_t least_memory_mhz = 0;
  std::int64_t most_memory_mhz = 0;
  double most_watts = 0;
  std::int64_t most_celsius = 0;
  std::int64_t slow_rounds = 0;
  std::vector<std::string> limited_by;
};

template <typename A>
void fields(A& a, GpuRow& row) {
  a.record("gpu_row", "The state of a rank's GPU at the beginnings of the rounds, by NVML.");
  a("rank", row.rank, "World rank.");
  a("reason", row.reason, "Reason why its state is not known; empty when it is.");
  a("least_sm_mhz", row.least_sm_mhz, "Clock of its multiprocessors.", {.varies = true});
  a("most_sm_mhz", row.most_sm_mhz, "Likewise.", {.varies = true});
  a("least_memory_mhz", row.least_memory_mhz, "Clock of its memory.", {.varies = true});
  a("most_memory_mhz", row.most_memory_mhz, "Likewise.", {.varies = true});
  a("most_watts", row.most_watts, "Power.", {.varies = true});
  a("most_celsius", row.most_celsius, "Temperature.", {.varies = true});
  a("slow_rounds", row.slow_rounds, "Rounds below 95 % of the highest clock. They count.",
    {.varies = true});
  a("limited_by", row.limited_by, "Reasons of NVML for lower clocks, of all rounds.",
    {.varies = true});
}

}  // namespace lossgrid
