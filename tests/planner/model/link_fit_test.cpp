// SPDX-License-Identifier: Apache-2.0
// The link that a fit finds is the one that made the samples.
#include "harness/planner/model/link_fit.h"

#include <gtest/gtest.h>

#include "harness/planner/model/collective_time.h"

namespace lossgrid {
namespace {

constexpr std::int64_t kCores = 2;
constexpr std::int64_t kCacheBytes = 1 << 24;

Transport made_transport(bool takes_turns) {
  Transport transport;
  transport.name = "thread";
  transport.takes_turns = takes_turns;
  transport.algorithms = {CollectiveAlgorithm::direct};
  transport.links = {{"memory", 0, 3e-6, 20e9, 5e9, 80e9, 40e9}};
  return transport;
}

std::vector<CollectiveSample> samples_of(const Transport& transport) {
  Machine machine;
  machine.cores = kCores;
  machine.cache = MemoryRates{kCacheBytes, 1, 1, 1};
  std::vector<CollectiveSample> samples;
  for (const int ranks : {2, 4, 8}) {
    for (const Collective operation : {Collective::all_reduce, Collective::all_gather}) {
      for (const std::int64_t bytes : {std::int64_t{4}, std::int64_t{1} << 17, kCacheBytes}) {
        const auto payload = static_cast<double>(bytes);
        const auto levels = shared_levels(group_levels(transport, ranks, 1), machine, transport,
                                          ranks, operation, payload);
        samples.push_back({operation, ranks, bytes,
                           fastest_collective(transport, operation, levels, payload).seconds});
      }
    }
  }
  return samples;
}

TEST(LinkFit, IsTheInverseOfTheModel) {
  for (const bool takes_turns : {false, true}) {
    const Transport made = made_transport(takes_turns);
    const Transport fitted = fit_transport("thread", samples_of(made), kCores);
    EXPECT_EQ(fitted.name, "thread");
    EXPECT_EQ(fitted.takes_turns, takes_turns);
    const LinkLevel& link = made.links[0];
    const LinkLevel& found = fitted.links[0];
    EXPECT_NEAR(found.latency_seconds / link.latency_seconds, 1, 0.01);  // 4 bytes take time
    EXPECT_NEAR(found.bytes_per_second / link.bytes_per_second, 1, 0.01);
    EXPECT_NEAR(found.reduce_bytes_per_second / link.reduce_bytes_per_second, 1, 0.01);
    EXPECT_NEAR(found.cache_bytes_per_second / link.cache_bytes_per_second, 1, 0.01);
    EXPECT_NEAR(found.cache_reduce_bytes_per_second / link.cache_reduce_bytes_per_second, 1, 0.01);
  }
}

TEST(LinkFit, OneSlowNumberOfRanksDoesNotMoveIt) {
  std::vector<CollectiveSample> samples = samples_of(made_transport(false));
  for (CollectiveSample& sample : samples) sample.seconds *= sample.ranks == 8 ? 10 : 1;
  const LinkLevel found = fit_transport("thread", samples, kCores).links[0];
  EXPECT_NEAR(found.bytes_per_second / 20e9, 1, 0.01);
}

}  // namespace
}  // namespace lossgrid
