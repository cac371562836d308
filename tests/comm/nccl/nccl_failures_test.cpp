// SPDX-License-Identifier: Apache-2.0
// Outcome on every rank of a collective over NCCL that fails, and that all its communicators end.
#include <thread>

#include <gmock/gmock.h>

#include "harness/comm/process_grid.h"
#include "harness/core/error.h"
#include "nccl_ranks.h"
#include "ranks.h"

namespace lossgrid {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

/// Returns the outcome of a run that fails; all its communicators of NCCL were ended by
/// ncclCommAbort.
RanksOutcome run_to_failure(int ranks, const NcclLibrary& nccl,
                            const std::function<void(Communicator&)>& body,
                            milliseconds deadline = kNoHurry) {
  RanksOutcome outcome = run_thread_ranks(ranks, on_nccl(nccl, body), deadline, kNoHurry);
  EXPECT_FALSE(outcome.all_ok());
  EXPECT_FALSE(outcome.any_hung());
  EXPECT_GT(fake_nccl().made(), 0);
  EXPECT_EQ(fake_nccl().aborted, fake_nccl().made());
  EXPECT_EQ(fake_nccl().destroyed, 0);
  return outcome;
}

void expect_all_say(const RanksOutcome& outcome, ErrorCode code, const std::string& message) {
  for (const RankOutcome& rank : outcome.ranks) {
    EXPECT_EQ(rank.code, code);
    EXPECT_EQ(rank.message, message);
  }
}

TEST(NcclFailures, CallsThatDoNotMatchAreNamed) {
  const NcclLibrary nccl = fresh_nccl();
  const RanksOutcome outcome = run_to_failure(3, nccl, [](Communicator& world) {
    const auto group = world.split(0, 0, "group");
    add_up(*group, 8);
    add_up(*group, world.rank() == 2 ? 9 : 8);
  });
  EXPECT_EQ(outcome.first_failed_rank, 2);
  // Call #1 broadcasts the first rank of the group.
  expect_all_say(outcome, ErrorCode::rank_failed,
                 "ranks disagree in call #3 of 'group': rank 0 calls all_reduce sum of 8 f32 "
                 "between GPUs, rank 2 calls all_reduce sum of 9 f32 between GPUs");
  EXPECT_EQ(fake_nccl().collectives, 3);
}

TEST(NcclFailures, ARankThatThrowsAbortsTheOthers) {
  const NcclLibrary nccl = fresh_nccl();
  const RanksOutcome outcome = run_to_failure(4, nccl, [](Communicator& world) {
    const ProcessGrid grid = make_process_grid(world, {2, 2});
    add_up(*grid.tp);
    if (world.rank() == 1) throw Error(ErrorCode::bad_input, "no such column");
    add_up(*grid.cp);
    add_up(world);
  });
  EXPECT_EQ(outcome.first_failed_rank, 1);
  EXPECT_EQ(outcome.ranks[1].message, "no such column");
  for (const std::size_t r : {0u, 2u, 3u}) {
    EXPECT_EQ(outcome.ranks[r].code, ErrorCode::aborted);
    EXPECT_EQ(outcome.ranks[r].message, "rank 1 failed: no such column");
  }
}

TEST(NcclFailures, AnErrorOnOneRankReachesAll) {
  for (const bool at_once : {false, true}) {
    const NcclLibrary nccl = fresh_nccl();
    (at_once ? fake_nccl().refusing_rank : fake_nccl().failing_rank) = 1;
    const RanksOutcome outcome =
        run_to_failure(3, nccl, [](Communicator& world) { add_up(world); });
    const std::string message =
        at_once ? "a collective of NCCL: invalid usage (said the fake)"
                : "an asynchronous error of NCCL: remote process exited (said the fake)";
    EXPECT_EQ(outcome.first_failed_rank, 1);
    EXPECT_EQ(outcome.ranks[1].code, ErrorCode::rank_failed);
    EXPECT_EQ(outcome.ranks[1].message, message);
    for (const std::size_t r : {0u, 2u}) {
      EXPECT_EQ(outcome.ranks[r].code, ErrorCode::aborted);
      EXPECT_EQ(outcome.ranks[r].message, "rank 1 failed: " + message);
    }
  }
}

TEST(NcclFailures, AHangEndsByTheDeadline) {
  const NcclLibrary nccl = fresh_nccl();
  fake_nccl().hangs = true;
  const RanksOutcome outcome = run_to_failure(
      3, nccl,
      [](Communicator& world) {
        const auto group = world.split(0, 0, "group");
        add_up(*group, 8);
      },
      milliseconds(1000));
  EXPECT_EQ(outcome.first_failed_rank, 0);
  for (std::size_t r = 0; r < outcome.ranks.size(); ++r) {
    EXPECT_EQ(outcome.ranks[r].code, ErrorCode::timeout);
    EXPECT_EQ(outcome.ranks[r].message,
              fmt::format("the deadline of 1000 ms passed while rank {} is in all_reduce sum of 8 "
                          "f32 between GPUs #2 of 'group'",
                          r));
    EXPECT_FALSE(outcome.ranks[r].busy);
  }
}

// Abort by a thread that is no rank, while all ranks wait for NCCL.
TEST(NcclFailures, AbortEndsTheWaitOfAllRanks) {
  const NcclLibrary nccl = fresh_nccl();
  fake_nccl().hangs = true;
  const RanksOutcome outcome = run_to_failure(3, nccl, [](Communicator& world) {
    std::thread other([&world] {
      while (world.rank() == 1 && fake_nccl().collectives < 3) std::this_thread::yield();
      if (world.rank() == 1) world.abort("seen enough");
    });
    const RankOutcome wait = outcome_of([&] { add_up(world); });
    other.join();
    throw Error(wait.code, wait.message);
  });
  EXPECT_EQ(outcome.first_failed_rank, 1);
  for (const RankOutcome& rank : outcome.ranks) {
    EXPECT_EQ(rank.message, "rank 1 aborted the run: seen enough");
  }
}

}  // namespace
}  // namespace lossgrid
