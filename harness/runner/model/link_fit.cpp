// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/model/link_fit.h"

#include <algorithm>

#include "harness/measure/statistics.h"

namespace lossgrid {
namespace {

/// Hops of a message, and bytes that a rank sends, in a ring.
struct RingWork {
  double hops = 0;
  double bytes = 0;
};

RingWork ring_work(const CollectiveSample& sample) {
  const auto p = static_cast<double>(sample.ranks);
  const auto payload = static_cast<double>(sample.payload_bytes);
  if (sample.operation == Collective::all_gather) return {p - 1, (p - 1) * payload};
  return {2 * (p - 1), 2 * (p - 1) / p * payload};
}

DeviceShare share_in(const CollectiveSample& sample, std::int64_t cores) {
  Machine machine;
  machine.cores = cores;
  return share_of(machine, sample.ranks);
}

double latency_of(const std::vector<CollectiveSample>& samples, std::int64_t payload_bytes,
                  std::int64_t cores) {
  std::vector<double> latencies;
  for (const CollectiveSample& sample : samples) {
    if (sample.payload_bytes != payload_bytes) continue;
    latencies.push_back(sample.seconds / (ring_work(sample).hops * share_in(sample, cores).waits));
  }
  return median(latencies);
}

double rate_of(const std::vector<CollectiveSample>& samples, Collective operation,
               std::int64_t payload_bytes, double latency, std::int64_t cores) {
  std::vector<double> rates;
  for (const CollectiveSample& sample : samples) {
    if (sample.operation != operation || sample.payload_bytes != payload_bytes) continue;
    const RingWork work = ring_work(sample);
    const DeviceShare share = share_in(sample, cores);
    // A tenth at least: noise may be longer than the hops alone.
    const double seconds =
        std::max(sample.seconds / 10, sample.seconds - work.hops * share.waits * latency);
    rates.push_back(work.bytes / (share.memory * seconds));
  }
  return median(rates);
}

}  // namespace

LinkLevel fit_link(const std::string& name, const std::vector<CollectiveSample>& samples,
                   std::int64_t cores) {
  const auto [smallest, largest] = std::minmax_element(
      samples.begin(), samples.end(),
      [](const auto& a, const auto& b) { return a.payload_bytes < b.payload_bytes; });
  LinkLevel link;
  link.name = name;
  link.latency_seconds = latency_of(samples, smallest->payload_bytes, cores);
  link.bytes_per_second =
      rate_of(samples, Collective::all_gather, largest->payload_bytes, link.latency_seconds, cores);
  link.reduce_bytes_per_second =
      rate_of(samples, Collective::all_reduce, largest->payload_bytes, link.latency_seconds, cores);
  return link;
}

}  // namespace lossgrid
