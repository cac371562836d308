// SPDX-License-Identifier: Apache-2.0
#include "harness/planner/model/link_fit.h"

#include <algorithm>
#include <map>

#include "harness/measure/statistics.h"

namespace lossgrid {
namespace {

DeviceShare share_in(const CollectiveSample& sample, std::int64_t cores) {
  Machine machine;
  machine.cores = cores;
  return device_share(machine, sample.ranks);
}

/// Returns the bytes that a rank copies.
double copied_bytes(const CollectiveSample& sample) {
  const auto p = static_cast<double>(sample.ranks);
  const auto payload = static_cast<double>(sample.payload_bytes);
  return sample.operation == Collective::all_gather ? (p - 1) * payload : 2 * (p - 1) / p * payload;
}

/// Returns the hops of the meeting in units of the latency.
double hops(const CollectiveSample& sample, bool takes_turns, std::int64_t cores) {
  return (sample.ranks - 1) * (takes_turns ? share_in(sample, cores).turns : 1);
}

/// Samples of one operation and number of ranks, by payload.
using Series = std::map<std::int64_t, CollectiveSample>;

std::vector<Series> split_series(const std::vector<CollectiveSample>& samples) {
  std::map<std::pair<Collective, int>, Series> by_kind;
  for (const CollectiveSample& sample : samples) {
    by_kind[{sample.operation, sample.ranks}][sample.payload_bytes] = sample;
  }
  std::vector<Series> all;
  for (auto& [kind, series] : by_kind) all.push_back(std::move(series));
  return all;
}

std::vector<double> measured_latencies(const std::vector<Series>& all, bool takes_turns,
                                       std::int64_t cores) {
  std::vector<double> latencies;
  for (const Series& series : all) {
    const CollectiveSample& smallest = series.begin()->second;
    latencies.push_back(smallest.seconds / hops(smallest, takes_turns, cores));
  }
  return latencies;
}

double spread(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return *most / *least;
}

/// Returns the median rate of the samples `from_last` before the largest payload.
double median_rate(const std::vector<Series>& all, Collective operation, int from_last,
                   const Transport& transport, std::int64_t cores) {
  std::vector<double> rates;
  for (const Series& series : all) {
    const CollectiveSample& sample = std::prev(series.end(), 1 + from_last)->second;
    if (sample.operation != operation) continue;
    const double latency =
        hops(sample, transport.takes_turns, cores) * transport.links[0].latency_seconds;
    // At least a tenth of the time, because noise may make the meeting alone take as long.
    const double seconds = std::max(sample.seconds / 10, sample.seconds - latency);
    rates.push_back(copied_bytes(sample) / (share_in(sample, cores).memory * seconds));
  }
  return median(rates);
}

}  // namespace

Transport fit_transport(const std::string& name, const std::vector<CollectiveSample>& samples,
                        std::int64_t cores) {
  const std::vector<Series> all = split_series(samples);
  const std::vector<double> together = measured_latencies(all, false, cores);
  const std::vector<double> in_turns = measured_latencies(all, true, cores);
  Transport transport;
  transport.name = name;
  transport.algorithms = {CollectiveAlgorithm::direct};
  transport.takes_turns = spread(in_turns) < spread(together);
  LinkLevel& link = transport.links.emplace_back();
  link.name = "memory";
  link.latency_seconds = median(transport.takes_turns ? in_turns : together);
  const auto rate = [&](Collective operation, int from_last) {
    return median_rate(all, operation, from_last, transport, cores);
  };
  link.bytes_per_second = rate(Collective::all_gather, 0);
  link.reduce_bytes_per_second = rate(Collective::all_reduce, 0);
  link.cache_bytes_per_second = rate(Collective::all_gather, 1);
  link.cache_reduce_bytes_per_second = rate(Collective::all_reduce, 1);
  return transport;
}

}  // namespace lossgrid
