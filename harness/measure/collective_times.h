// SPDX-License-Identifier: Apache-2.0
// Times of collectives of a group of ranks that does nothing else, by size. Collective; the numbers
// of repetitions are fixed, so that ranks never diverge.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/comm/communicator.h"
#include "harness/core/clock.h"

namespace lossgrid {

/// Time of one operation with one payload, as communicators count it.
struct CollectiveSample {
  Collective operation = Collective::all_reduce;
  int ranks = 1;
  std::int64_t payload_bytes = 0;
  double seconds = 0;
};

/// Returns the nanoseconds of an all-reduce or all-gather of so many float32, each behind a
/// barrier: a sample is the largest time over ranks, and the p-quantile of the samples counts. The
/// same number on all ranks, at least 1.
double collective_ns(Communicator& comm, Collective operation, std::size_t floats, int samples,
                     double p, const ClockNs& now = steady_clock_ns);

/// Returns all-reduce and all-gather of results from 4 bytes to `most_bytes`, of which an
/// all-gather sends an equal part; nothing for one rank. The 0.2-quantile counts: other work of
/// the machine only slows it down.
std::vector<CollectiveSample> time_collectives(Communicator& comm, std::int64_t most_bytes,
                                               const ClockNs& now = steady_clock_ns);

}  // namespace lossgrid
