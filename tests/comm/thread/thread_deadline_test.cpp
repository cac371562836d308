// SPDX-License-Identifier: Apache-2.0
// Ranks that hang or are late: the outcome at the caller, and its time.
#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include "ranks.h"

namespace lossgrid {
namespace {

using std::chrono::milliseconds;

TEST(ThreadDeadline, AHungRankIsLeftBehindAndTheOthersTimeOut) {
  // Owned by the threads: the hung one outlives this test.
  const auto release = std::make_shared<std::atomic<bool>>(false);
  const Stopwatch watch;
  const RanksOutcome outcome = run_thread_ranks(
      3,
      [release](Communicator& world) {
        while (world.rank() == 1 && !*release) std::this_thread::sleep_for(milliseconds(5));
        add_up(world);
      },
      kDeadline, milliseconds(50));
  EXPECT_GE(watch.elapsed(), kDeadline + milliseconds(50));
  EXPECT_LT(watch.elapsed(), kAtOnce);
  EXPECT_TRUE(outcome.any_hung());
  EXPECT_FALSE(outcome.all_ok());
  EXPECT_EQ(outcome.first_failed_rank, 1);
  EXPECT_FALSE(outcome.ranks[1].finished);
  EXPECT_EQ(outcome.ranks[1].code, ErrorCode::timeout);
  EXPECT_EQ(outcome.ranks[1].message, "rank 1 hangs: not back 50 ms after the deadline of 500 ms");
  for (const int r : {0, 2}) {
    const RankOutcome& rank = outcome.ranks[static_cast<std::size_t>(r)];
    EXPECT_TRUE(rank.finished);
    EXPECT_EQ(rank.code, ErrorCode::timeout);
    EXPECT_EQ(rank.message, fmt::format("the deadline of 500 ms passed while rank {} waits in "
                                        "all_reduce #1 of 'world' for rank 1",
                                        r));
  }
  *release = true;  // it returns to a run that is over, whose state must still exist
  std::this_thread::sleep_for(milliseconds(50));
}

// A hang outranks the failure that came first: the process cannot go on after it.
TEST(ThreadDeadline, AHungRankIsFoundThoughAnotherOneFailed) {
  const auto release = std::make_shared<std::atomic<bool>>(false);
  const RanksOutcome outcome = run_thread_ranks(
      3,
      [release](Communicator& world) {
        if (world.rank() == 0) throw std::runtime_error("boom");
        while (world.rank() == 2 && !*release) std::this_thread::sleep_for(milliseconds(5));
        add_up(world);
      },
      kDeadline, milliseconds(50));
  EXPECT_EQ(outcome.first_failed_rank, 2);
  EXPECT_FALSE(outcome.ranks[2].finished);
  EXPECT_EQ(outcome.ranks[0].message, "boom");
  EXPECT_EQ(outcome.ranks[1].code, ErrorCode::aborted);
  *release = true;
}

// As on a machine with much other work.
TEST(ThreadDeadline, ARankThatWaitedIsGivenTimeToLeaveBesideAHungOne) {
  struct Slow {
    ~Slow() { std::this_thread::sleep_for(milliseconds(300)); }
  };
  const auto release = std::make_shared<std::atomic<bool>>(false);
  const RanksOutcome outcome = run_thread_ranks(
      3,
      [release](Communicator& world) {
        while (world.rank() == 1 && !*release) std::this_thread::sleep_for(milliseconds(5));
        const Slow slow;
        world.barrier();
      },
      kDeadline, milliseconds(20));
  EXPECT_TRUE(outcome.ranks[0].finished);
  EXPECT_TRUE(outcome.ranks[2].finished);
  EXPECT_FALSE(outcome.ranks[1].finished);
  EXPECT_EQ(outcome.first_failed_rank, 1);
  *release = true;
}

TEST(ThreadDeadline, ASlowRankThatComesBackWithinTheGraceHasTimedOutButDoesNotHang) {
  const RanksOutcome outcome = run_thread_ranks(
      2,
      [](Communicator& world) {
        if (world.rank() == 1) wait_until(ThreadRankState::left, {0});  // which timed out
        world.barrier();
      },
      kDeadline, kNoHurry);
  EXPECT_FALSE(outcome.any_hung());
  EXPECT_EQ(outcome.first_failed_rank, 1);
  EXPECT_EQ(outcome.ranks[1].code, ErrorCode::timeout);
  EXPECT_EQ(outcome.ranks[1].message, "the deadline of 500 ms passed with rank 1 busy");
  EXPECT_EQ(outcome.ranks[0].code, ErrorCode::timeout);
}

}  // namespace
}  // namespace lossgrid
