// SPDX-License-Identifier: Apache-2.0
// Times of collectives against numbers by hand.
#include "harness/planner/model/collective_time.h"

#include <gtest/gtest.h>

#include "planner/model/simple_machine.h"

namespace lossgrid {
namespace {

using enum CollectiveAlgorithm;

std::vector<GroupLevel> one_level(std::int64_t ranks, double latency, double rate) {
  return {{ranks, {"link", 0, latency, rate, 0}}};
}

TEST(CollectiveTime, RingByHand) {
  const auto levels = one_level(4, 1e-6, 1e9);
  // 2 (p-1)/p n/B + 2 (p-1) L, n = 8 MB: 12 ms and six microseconds.
  EXPECT_DOUBLE_EQ(collective_seconds(ring, Collective::all_reduce, levels, 8e6), 12e-3 + 6e-6);
  EXPECT_DOUBLE_EQ(collective_seconds(ring, Collective::all_gather, levels, 8e6), 24e-3 + 3e-6);
  EXPECT_DOUBLE_EQ(collective_seconds(ring, Collective::reduce_scatter, levels, 8e6), 6e-3 + 3e-6);
  EXPECT_DOUBLE_EQ(collective_seconds(ring, Collective::broadcast, levels, 8e6), 8e-3 + 3e-6);
  EXPECT_DOUBLE_EQ(collective_seconds(ring, Collective::barrier, levels, 0), 6e-6);
}

TEST(CollectiveTime, TreeByHand) {
  const auto levels = one_level(8, 1e-6, 1e9);
  EXPECT_DOUBLE_EQ(collective_seconds(tree, Collective::all_reduce, levels, 8e6), 16e-3 + 6e-6);
  EXPECT_DOUBLE_EQ(collective_seconds(tree, Collective::all_gather, levels, 8e6), 56e-3 + 3e-6);
  // Five ranks need as many steps as eight.
  EXPECT_DOUBLE_EQ(collective_seconds(tree, Collective::barrier, one_level(5, 1e-6, 1e9), 0), 6e-6);
}

TEST(CollectiveTime, SeveralNodesByHand) {
  // Two nodes of four ranks: inside L = 2, B = 100, outside L = 8, B = 10.
  const Machine machine = simple_machine();
  const auto levels = group_levels(machine.transports[0], 8, 1);
  ASSERT_EQ(levels.size(), 2u);
  EXPECT_EQ(levels[0].parts, 4);
  EXPECT_EQ(levels[1].parts, 2);
  // A ring has 6 hops inside and 1 outside, and goes at the rate of the outside.
  EXPECT_DOUBLE_EQ(collective_seconds(ring, Collective::all_gather, levels, 100),
                   7 * 100 / 10.0 + 6 * 2 + 8);
  // A tree is two steps deep inside, and one outside.
  EXPECT_DOUBLE_EQ(collective_seconds(tree, Collective::all_reduce, levels, 100),
                   2 * 100 / 10.0 + 2 * (2 * 2 + 8));
  // Reduce-scatter and all-gather inside, with an all-reduce of a quarter outside in between.
  EXPECT_DOUBLE_EQ(collective_seconds(hierarchical, Collective::all_reduce, levels, 100),
                   2 * (0.75 * 100 / 100 + 3 * 2) + (25 / 10.0 + 2 * 8));
  EXPECT_DOUBLE_EQ(collective_seconds(hierarchical, Collective::reduce_scatter, levels, 100),
                   (0.75 * 100 / 100 + 3 * 2) + (0.5 * 25 / 10.0 + 8));
  EXPECT_DOUBLE_EQ(collective_seconds(hierarchical, Collective::all_gather, levels, 100),
                   (100 / 10.0 + 8) + (3 * 200 / 100.0 + 3 * 2));
}

TEST(CollectiveTime, ARankOfAnotherAxisIsFurtherAway) {
  const Transport transport = simple_machine().transports[0];
  EXPECT_TRUE(group_levels(transport, 1, 1).empty());
  EXPECT_EQ(group_levels(transport, 4, 1).size(), 1u);
  // Two of four ranks with two between them stand in the same node.
  const auto strided = group_levels(transport, 4, 2);
  ASSERT_EQ(strided.size(), 2u);
  EXPECT_EQ(strided[0].parts, 2);
  EXPECT_EQ(strided[1].parts, 2);
  const auto apart = group_levels(transport, 4, 8);
  ASSERT_EQ(apart.size(), 1u);
  EXPECT_EQ(apart[0].link.name, "outside");
  EXPECT_EQ(apart[0].parts, 4);
}

TEST(CollectiveTime, TheFastestAlgorithmCountsWithTheCall) {
  Transport transport = simple_machine().transports[0];
  transport.algorithms = {ring, tree, hierarchical};
  const auto levels = group_levels(transport, 8, 1);
  const CollectiveTime small = fastest_collective(transport, Collective::all_reduce, levels, 0);
  EXPECT_EQ(small.algorithm, tree);
  EXPECT_DOUBLE_EQ(small.seconds, 0.5 + 24);
  const CollectiveTime large = fastest_collective(transport, Collective::all_reduce, levels, 1e6);
  EXPECT_EQ(large.algorithm, hierarchical);
}

TEST(CollectiveTime, RatesOfMessagesThatAreAddedUpAreTheirOwn) {
  std::vector<GroupLevel> levels = one_level(2, 0, 100);
  levels[0].link.reduce_bytes_per_second = 50;
  EXPECT_DOUBLE_EQ(collective_seconds(ring, Collective::all_reduce, levels, 100), 2);
  EXPECT_DOUBLE_EQ(collective_seconds(ring, Collective::all_gather, levels, 100), 1);
}

TEST(DeviceShare, RanksShareCoresAndMemory) {
  Machine machine = simple_machine();
  EXPECT_EQ(device_share(machine, 64).compute, 1);
  machine.ranks_per_node = 0;
  machine.cores = 8;
  EXPECT_DOUBLE_EQ(device_share(machine, 2).compute, 0.5);
  EXPECT_DOUBLE_EQ(device_share(machine, 2).turns, 1);
  // Two threads each: two cores stay idle.
  EXPECT_DOUBLE_EQ(device_share(machine, 3).compute, 0.25);
  EXPECT_DOUBLE_EQ(device_share(machine, 32).compute, 1.0 / 32);
  EXPECT_DOUBLE_EQ(device_share(machine, 32).memory, 1.0 / 32);
  EXPECT_DOUBLE_EQ(device_share(machine, 32).turns, 4);
}

TEST(CollectiveTime, RanksOfAProcessorMeetAndShareItsMemory) {
  Machine machine = simple_machine();
  machine.ranks_per_node = 0;
  machine.cores = 8;
  machine.cache = MemoryRates{1000, 1, 1, 1};
  Transport transport = machine.transports[0];
  auto levels = one_level(4, 1, 160);
  levels[0].link.cache_bytes_per_second = 1600;
  const auto shared = [&](double payload) {
    return shared_levels(levels, machine, transport, 16, Collective::all_gather, payload);
  };
  // 16 ranks with one part to send and four to receive: 12 bytes are 960, 13 are more than 1000.
  EXPECT_DOUBLE_EQ(shared(12)[0].link.bytes_per_second, 100);
  EXPECT_DOUBLE_EQ(shared(13)[0].link.bytes_per_second, 10);
  EXPECT_DOUBLE_EQ(shared(13)[0].link.latency_seconds, 1);
  transport.takes_turns = true;
  EXPECT_DOUBLE_EQ(shared(13)[0].link.latency_seconds, 2);
  // One meeting, whatever the operation.
  EXPECT_DOUBLE_EQ(collective_seconds(direct, Collective::all_reduce, levels, 160), 1.5 + 3);
  EXPECT_DOUBLE_EQ(collective_seconds(direct, Collective::all_gather, levels, 160), 3 + 3);
}

}  // namespace
}  // namespace lossgrid
