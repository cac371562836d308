// SPDX-License-Identifier: Apache-2.0
#include "harness/measure/all_reduce_ceiling.h"

#include <cstddef>

#include "harness/measure/collective_times.h"

namespace lossgrid {
namespace {

constexpr int kLatencySamples = 101;
constexpr int kBandwidthSamples = 31;
constexpr std::size_t kPayloadBytes = 1 << 20;

double median_ns(Communicator& comm, const ClockNs& now, std::size_t floats, int samples) {
  return collective_ns(comm, Collective::all_reduce, floats, samples, 0.5, now);
}

}  // namespace

AllReduceCeiling measure_all_reduce(Communicator& comm, const ClockNs& now) {
  AllReduceCeiling ceiling;
  if (comm.size() == 1) return ceiling;
  ceiling.latency_ns = median_ns(comm, now, 1, kLatencySamples);
  ceiling.bytes_per_second = static_cast<double>(kPayloadBytes) * 1e9 /
                             median_ns(comm, now, kPayloadBytes / sizeof(float), kBandwidthSamples);
  return ceiling;
}

}  // namespace lossgrid
