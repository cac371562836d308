// SPDX-License-Identifier: Apache-2.0
#include "harness/measure/collective_times.h"

#include <algorithm>
#include <span>

#include "harness/measure/statistics.h"

namespace lossgrid {
namespace {

constexpr int kWarmUps = 5;
constexpr double kQuantile = 0.2;

/// Returns the number of repetitions for a size, such that all sizes take about the same time.
int repetitions(std::size_t bytes) {
  return bytes <= 4096 ? 101 : bytes <= (1 << 20) ? 31 : 9;
}

}  // namespace

double collective_ns(Communicator& comm, Collective operation, std::size_t floats, int samples,
                     double p, const ClockNs& now) {
  std::vector<float> data(floats, 0.0f);  // sums of zeros stay zero
  std::vector<float> received;
  if (operation == Collective::all_gather) {
    received.resize(floats * static_cast<std::size_t>(comm.size()));
  }
  const auto once = [&] {
    comm.barrier();
    const std::int64_t start = now();
    if (operation == Collective::all_gather) {
      comm.all_gather(std::span<const float>(data), std::span(received));
    } else {
      comm.all_reduce(std::span(data), ReduceOp::sum);
    }
    return std::max<std::int64_t>(1, now() - start);  // at least 1: a divisor
  };
  for (int k = 0; k < kWarmUps; ++k) once();
  std::vector<std::int64_t> own_ns;
  for (int k = 0; k < samples; ++k) own_ns.push_back(once());
  comm.all_reduce(std::span(own_ns), ReduceOp::max);
  return quantile(std::vector<double>(own_ns.begin(), own_ns.end()), p);
}

std::vector<CollectiveSample> time_collectives(Communicator& comm, std::int64_t most_bytes,
                                               const ClockNs& now) {
  std::vector<CollectiveSample> times;
  const auto ranks = static_cast<std::size_t>(comm.size());
  if (ranks == 1) return times;
  for (const Collective operation : {Collective::all_reduce, Collective::all_gather}) {
    for (const std::size_t bytes : {std::size_t{4}, std::size_t{4096}, std::size_t{1} << 18,
                                    static_cast<std::size_t>(most_bytes)}) {
      const std::size_t all = bytes / sizeof(float);
      const std::size_t floats =
          operation == Collective::all_gather ? std::max<std::size_t>(1, all / ranks) : all;
      const double ns = collective_ns(comm, operation, floats, repetitions(bytes), kQuantile, now);
      times.push_back(
          {operation, comm.size(), static_cast<std::int64_t>(floats * sizeof(float)), ns * 1e-9});
    }
  }
  return times;
}

}  // namespace lossgrid
