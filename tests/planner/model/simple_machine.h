// SPDX-License-Identifier: Apache-2.0
// A machine with numbers that are easy to calculate with.
#pragma once

#include "harness/planner/model/machine.h"

namespace lossgrid {

/// Returns a machine of GPUs whose nodes have four ranks.
inline Machine simple_machine() {
  Machine machine;
  machine.name = "simple";
  machine.summary = "for tests";
  machine.ranks_per_node = 4;
  machine.memory = {std::int64_t{1} << 40, 2304, 4352, 1000};
  machine.gemm_flops_per_second = {{DType::f32, 18432}};
  machine.exponentials_per_second = {{DType::f32, 1024}};
  machine.phase_seconds = 0.25;
  machine.row_seconds = 0.1;
  machine.transports = {{"nccl",
                         0.5,
                         false,
                         {CollectiveAlgorithm::ring},
                         {{"inside", 4, 2, 100, 0}, {"outside", 0, 8, 10, 0}}}};
  return machine;
}

}  // namespace lossgrid
