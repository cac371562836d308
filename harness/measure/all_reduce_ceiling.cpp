// SPDX-License-Identifier: Apache-2.0
#include "harness/measure/all_reduce_ceiling.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "harness/measure/statistics.h"

namespace lossgrid {
namespace {

constexpr int kWarmUps = 5;
constexpr int kLatencySamples = 101;
constexpr int kBandwidthSamples = 31;
constexpr std::size_t kPayloadBytes = 1 << 20;

/// Returns the median over samples of the slowest rank's time.
double median_ns(Communicator& comm, const ClockNs& now, std::size_t floats, int samples) {
  std::vector<float> data(floats, 0.0f);  // sums of zeros stay zero
  const auto once = [&] {
    comm.barrier();
    const std::int64_t start = now();
    comm.all_reduce(std::span(data), ReduceOp::sum);
    return std::max<std::int64_t>(1, now() - start);  // at least 1: a divisor
  };
  for (int k = 0; k < kWarmUps; ++k) once();
  std::vector<std::int64_t> own_ns;
  for (int k = 0; k < samples; ++k) own_ns.push_back(once());
  comm.all_reduce(std::span(own_ns), ReduceOp::max);
  return median(std::vector<double>(own_ns.begin(), own_ns.end()));
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
