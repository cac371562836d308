// SPDX-License-Identifier: Apache-2.0
// Time of an all-reduce of a group of ranks that does nothing else: a lower bound for the
// communication of a loss. Collective; the numbers of repetitions are fixed, so that ranks never
// diverge.
#pragma once

#include "harness/comm/communicator.h"
#include "harness/core/clock.h"

namespace lossgrid {

struct AllReduceCeiling {
  double latency_ns = 0;        // of one float32
  double bytes_per_second = 0;  // payload of one rank divided by time, at 1 MiB
};

/// Measures sums of float32, each behind a barrier; a sample is the largest time over ranks, and
/// the median of the samples counts. The same numbers on all ranks. Zeros for one rank: no
/// communication.
AllReduceCeiling measure_all_reduce(Communicator& comm, const ClockNs& now = steady_clock_ns);

}  // namespace lossgrid
