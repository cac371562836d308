// SPDX-License-Identifier: Apache-2.0
// What a group of ranks needs for an all-reduce when it does nothing else: the least that a loss
// which communicates can spend on it. Collective; the numbers of repetitions are fixed, so that
// ranks never diverge.
#pragma once

#include "harness/comm/communicator.h"
#include "harness/core/clock.h"

namespace lossgrid {

struct AllReduceCeiling {
  double latency_ns = 0;        // of one float32
  double bytes_per_second = 0;  // payload of one rank over time, at 1 MiB
};

/// Sums of float32, each behind a barrier; a sample is the largest time over ranks, and the median
/// of the samples counts. The same numbers on all ranks. Zeros for one rank: no communication.
AllReduceCeiling measure_all_reduce(Communicator& comm, const ClockNs& now = steady_clock_ns);

}  // namespace lossgrid
