// SPDX-License-Identifier: Apache-2.0
#include "harness/planner/model/collective_time.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <ranges>

namespace lossgrid {
namespace {

bool adds_up(Collective operation) {
  return operation == Collective::all_reduce || operation == Collective::reduce_scatter;
}

double link_rate(const LinkLevel& link, Collective operation) {
  return adds_up(operation) && link.reduce_bytes_per_second > 0 ? link.reduce_bytes_per_second
                                                                : link.bytes_per_second;
}

std::int64_t rank_count(const std::vector<GroupLevel>& levels) {
  std::int64_t ranks = 1;
  for (const GroupLevel& level : levels) ranks *= level.parts;
  return ranks;
}

/// Returns the bytes that a rank sends, as a multiple of the payload.
double sent_share(Collective operation, double p) {
  switch (operation) {
    case Collective::all_reduce:
      return 2 * (p - 1) / p;
    case Collective::all_gather:
      return p - 1;
    case Collective::reduce_scatter:
      return (p - 1) / p;
    case Collective::broadcast:
      return 1;
    default:
      return 0;
  }
}

/// Returns how often a message passes through all ranks.
double round_count(Collective operation) {
  return operation == Collective::all_reduce || operation == Collective::barrier ? 2 : 1;
}

double slowest_rate(const std::vector<GroupLevel>& levels, Collective operation) {
  double rate = std::numeric_limits<double>::infinity();
  for (const GroupLevel& level : levels) rate = std::min(rate, link_rate(level.link, operation));
  return rate;
}

/// Returns the sum of latencies of p - 1 hops, with a hop on the outer link for every node entered.
double ring_latency(const std::vector<GroupLevel>& levels) {
  double seconds = 0;
  std::int64_t outside = 1;
  for (const GroupLevel& level : std::views::reverse(levels)) {
    seconds += static_cast<double>((level.parts - 1) * outside) * level.link.latency_seconds;
    outside *= level.parts;
  }
  return seconds;
}

double tree_latency(const std::vector<GroupLevel>& levels) {
  double seconds = 0;
  for (const GroupLevel& level : levels) {
    seconds += std::ceil(std::log2(static_cast<double>(level.parts))) * level.link.latency_seconds;
  }
  return seconds;
}

double ring_seconds(Collective operation, const std::vector<GroupLevel>& levels, double bytes) {
  const auto p = static_cast<double>(rank_count(levels));
  return sent_share(operation, p) * bytes / slowest_rate(levels, operation) +
         round_count(operation) * ring_latency(levels);
}

double direct_seconds(Collective operation, const std::vector<GroupLevel>& levels, double bytes) {
  return ring_seconds(operation, levels, bytes) -
         (round_count(operation) - 1) * ring_latency(levels);
}

double tree_seconds(Collective operation, const std::vector<GroupLevel>& levels, double bytes) {
  const auto p = static_cast<double>(rank_count(levels));
  // Trees send the whole payload up and down; doubling sends as much as a ring.
  const double share = operation == Collective::all_reduce ? 2 : sent_share(operation, p);
  return share * bytes / slowest_rate(levels, operation) +
         round_count(operation) * tree_latency(levels);
}

double hierarchical_seconds(Collective operation, const std::vector<GroupLevel>& levels,
                            double bytes) {
  double seconds = 0;
  const auto ring = [&](Collective step, const GroupLevel& level, double payload) {
    seconds += ring_seconds(step, {level}, payload);
  };
  if (operation == Collective::all_gather || operation == Collective::broadcast) {
    for (const GroupLevel& level : std::views::reverse(levels)) {
      ring(operation, level, bytes);
      if (operation == Collective::all_gather) bytes *= static_cast<double>(level.parts);
    }
    return seconds;
  }
  for (std::size_t k = 0; k < levels.size(); ++k) {
    const auto parts = static_cast<double>(levels[k].parts);
    if (operation == Collective::reduce_scatter) {
      ring(Collective::reduce_scatter, levels[k], bytes);
    } else if (k + 1 == levels.size()) {
      ring(operation, levels[k], bytes);
    } else {
      ring(Collective::reduce_scatter, levels[k], bytes);
      ring(Collective::all_gather, levels[k], bytes / parts);
    }
    bytes /= parts;
  }
  return seconds;
}

}  // namespace

std::vector<GroupLevel> group_levels(const Transport& transport, std::int64_t ranks,
                                     std::int64_t stride) {
  std::vector<GroupLevel> levels;
  std::int64_t joined = 1;
  for (const LinkLevel& link : transport.links) {
    const std::int64_t inside =
        link.ranks == 0 ? ranks : std::clamp<std::int64_t>(link.ranks / stride, 1, ranks);
    const std::int64_t parts = (inside + joined - 1) / joined;
    if (parts > 1) levels.push_back({parts, link});
    joined = std::max(joined, inside);
  }
  return levels;
}

double collective_seconds(CollectiveAlgorithm algorithm, Collective operation,
                          const std::vector<GroupLevel>& levels, double payload_bytes) {
  if (levels.empty()) return 0;
  switch (algorithm) {
    case CollectiveAlgorithm::tree:
      return tree_seconds(operation, levels, payload_bytes);
    case CollectiveAlgorithm::hierarchical:
      return hierarchical_seconds(operation, levels, payload_bytes);
    case CollectiveAlgorithm::direct:
      return direct_seconds(operation, levels, payload_bytes);
    default:
      return ring_seconds(operation, levels, payload_bytes);
  }
}

CollectiveTime fastest_collective(const Transport& transport, Collective operation,
                                  const std::vector<GroupLevel>& levels, double payload_bytes) {
  CollectiveTime fastest{CollectiveAlgorithm::ring, std::numeric_limits<double>::infinity()};
  for (const CollectiveAlgorithm algorithm : transport.algorithms) {
    const double seconds = collective_seconds(algorithm, operation, levels, payload_bytes);
    if (seconds < fastest.seconds) fastest = {algorithm, seconds};
  }
  fastest.seconds += transport.call_seconds;
  return fastest;
}

std::vector<GroupLevel> shared_levels(const std::vector<GroupLevel>& levels, const Machine& machine,
                                      const Transport& transport, std::int64_t ranks,
                                      Collective operation, double payload_bytes) {
  const DeviceShare share = device_share(machine, ranks);
  // A rank's own part and the received parts.
  const double parts =
      operation == Collective::all_gather ? 1 + static_cast<double>(rank_count(levels)) : 1;
  const double buffers = static_cast<double>(ranks) * parts * payload_bytes;
  const bool cached = machine.cache && buffers <= static_cast<double>(machine.cache->bytes);
  std::vector<GroupLevel> shared = levels;
  for (GroupLevel& level : shared) {
    LinkLevel& link = level.link;
    if (cached && link.cache_bytes_per_second > 0) {
      link.bytes_per_second = link.cache_bytes_per_second;
      link.reduce_bytes_per_second = link.cache_reduce_bytes_per_second;
    }
    if (transport.takes_turns) link.latency_seconds *= share.turns;
    link.bytes_per_second *= share.memory;
    link.reduce_bytes_per_second *= share.memory;
  }
  return shared;
}

}  // namespace lossgrid
