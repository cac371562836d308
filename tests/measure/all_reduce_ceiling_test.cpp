// SPDX-License-Identifier: Apache-2.0
// All-reduce ceilings with made-up clocks on each rank: the slowest rank counts, the median of
// samples counts, and all ranks compute the same numbers.
#include "harness/measure/all_reduce_ceiling.h"

#include <array>
#include <chrono>
#include <vector>

#include <gtest/gtest.h>

#include "harness/comm/counting_communicator.h"
#include "harness/comm/thread/thread_communicator.h"

namespace lossgrid {
namespace {

constexpr std::chrono::milliseconds kDeadline{60000};

/// Clock by which each pair of calls is a sample: rank r takes (r + 1) * 1000 ns, every tenth
/// sample 100 times as long (another process had the core).
class SampleClock {
 public:
  explicit SampleClock(int rank) : rank_(rank) {}
  std::int64_t operator()() {
    if (++calls_ % 2 == 0) now_ += (rank_ + 1) * 1000 * (calls_ % 20 == 0 ? 100 : 1);
    return now_;
  }

 private:
  int rank_;
  int calls_ = 0;
  std::int64_t now_ = 0;
};

std::vector<AllReduceCeiling> measure_on(int ranks) {
  std::vector<AllReduceCeiling> results(static_cast<std::size_t>(ranks));
  const RanksOutcome outcome = run_thread_ranks(
      ranks,
      [&](Communicator& world) {
        results[static_cast<std::size_t>(world.rank())] =
            measure_all_reduce(world, SampleClock(world.rank()));
      },
      kDeadline);
  EXPECT_TRUE(outcome.all_ok());
  return results;
}

TEST(AllReduceCeiling, IsTheMedianOfTheSlowestRankOnAllRanks) {
  for (const int ranks : {2, 3, 5}) {
    for (const AllReduceCeiling& ceiling : measure_on(ranks)) {
      EXPECT_EQ(ceiling.latency_ns, ranks * 1000.0);
      EXPECT_DOUBLE_EQ(ceiling.bytes_per_second, (1 << 20) * 1e9 / (ranks * 1000.0));
    }
  }
}

TEST(AllReduceCeiling, IsZeroForOneRank) {
  const std::vector<AllReduceCeiling> results = measure_on(1);
  EXPECT_EQ(results[0].latency_ns, 0);
  EXPECT_EQ(results[0].bytes_per_second, 0);
}

TEST(AllReduceCeiling, MakesTheSameCallsWithEveryClock) {
  std::array<CollectiveCounts, 2> counts;
  const RanksOutcome outcome = run_thread_ranks(
      2,
      [&](Communicator& world) {
        const auto rank = static_cast<std::size_t>(world.rank());
        const auto counting = count_calls(world, counts[rank]);
        measure_all_reduce(*counting, SampleClock(1000 * world.rank()));
      },
      kDeadline);
  EXPECT_TRUE(outcome.all_ok());
  EXPECT_EQ(counts[0], counts[1]);
  const CollectiveCount reductions = counts[0][Collective::all_reduce];
  EXPECT_GE(reductions.calls, 101 + 31);
  EXPECT_EQ(counts[0][Collective::barrier].calls, reductions.calls - 2);  // and two for samples
  EXPECT_GE(reductions.payload_bytes, 31 << 20);
}

TEST(AllReduceCeiling, SurvivesAClockThatStandsStill) {
  const RanksOutcome outcome = run_thread_ranks(
      2,
      [](Communicator& world) {
        const AllReduceCeiling ceiling = measure_all_reduce(world, [] { return std::int64_t{7}; });
        EXPECT_EQ(ceiling.latency_ns, 1);
        EXPECT_EQ(ceiling.bytes_per_second, (1 << 20) * 1e9);
      },
      kDeadline);
  EXPECT_TRUE(outcome.all_ok());
}

}  // namespace
}  // namespace lossgrid
