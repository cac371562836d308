// SPDX-License-Identifier: Apache-2.0
// Time of an all-reduce by a group of otherwise idle ranks: a lower bound for the communication of
// a loss. Collective; the number of repetitions is fixed, so that ranks never diverge.
#pragma once

#include "harness/comm/communicator.h"
#include "harness/core/clock.h"

namespace lossgrid {

struct AllReduceCeiling {
  double latency_ns = 0;        // all-reduce of one float32
  double bytes_per_second = 0;  // payload of one rank divided by time, at 1 MiB
};

/// Measures sums of float32, each after a barrier. A sample is the largest time over ranks; the
/// result is the median of the samples, the same on all ranks. Zeros for one rank, which has no
/// communication.
AllReduceCeiling measure_all_reduce(Communicator& comm, const ClockNs& now = steady_clock_ns);

}  // namespace lossgrid
