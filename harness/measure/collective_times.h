// SPDX-License-Identifier: Apache-2.0
// Times of collectives by a group of otherwise idle ranks, by size. Collective; the numbers of
// repetitions are fixed, so that ranks never diverge.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/comm/communicator.h"
#include "harness/core/clock.h"

namespace lossgrid {

/// Time of one operation with one payload, in bytes as communicators count them.
struct CollectiveSample {
  Collective operation = Collective::all_reduce;
  int ranks = 1;
  std::int64_t payload_bytes = 0;
  double seconds = 0;
};

/// Returns the nanoseconds of an all-reduce or all-gather of `floats` float32, each after a
/// barrier: the p-quantile of samples, each the largest time over ranks. The same number on all
/// ranks, at least 1.
double collective_ns(Communicator& comm, Collective operation, std::size_t floats, int samples,
                     double p, const ClockNs& now = steady_clock_ns);

/// Returns times of all-reduce and all-gather for results of 4 bytes to `most_bytes`, of which a
/// rank of an all-gather sends an equal part; empty for one rank. Each time is a 0.2-quantile,
/// because other work of the machine only adds time.
std::vector<CollectiveSample> time_collectives(Communicator& comm, std::int64_t most_bytes,
                                               const ClockNs& now = steady_clock_ns);

}  // namespace lossgrid
