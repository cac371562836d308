// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/faults/fault_injection.h"

#include <csignal>
#include <memory>
#include <string>

#include <gmock/gmock.h>

#include "harness/core/error.h"
#include "ranks.h"

namespace lossgrid {
namespace {

using std::chrono::milliseconds;

/// Three barriers, of the world and of a split, with `fault`.
std::function<void(Communicator&)> three_calls(Fault fault) {
  return [fault](Communicator& world) {
    FaultInjector injector(fault, world.rank());
    const auto comm = inject_faults(world, injector);
    const auto group = comm->split(0, world.rank(), "group");
    comm->barrier();
    std::int32_t value = 1;
    group->all_reduce(std::span(&value, 1), ReduceOp::sum);
    EXPECT_EQ(value, world.size());
    comm->barrier();
  };
}

TEST(FaultInjectionDeathTest, EndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [](FaultKind kind) { run_thread_ranks(2, three_calls({1, 2, kind}), kNoHurry); };
  EXPECT_EXIT(run(FaultKind::exit), testing::ExitedWithCode(3), "");
  EXPECT_EXIT(run(FaultKind::segfault), testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(run(FaultKind::kill), testing::KilledBySignal(SIGKILL), "");
}

TEST(FaultInjection, NothingHappensToOthersOrAfterTheLastCall) {
  expect_ranks_ok(3, three_calls({7, 1, FaultKind::exception}));
  expect_ranks_ok(3, three_calls({1, 4, FaultKind::exception}));
}

TEST(FaultInjection, ThrowsAtTheCallOfItsRank) {
  for (const int call : {1, 2, 3}) {
    const RanksOutcome outcome =
        run_thread_ranks(3, three_calls({1, call, FaultKind::exception}), kNoHurry);
    EXPECT_EQ(outcome.first_failed_rank, 1);
    EXPECT_EQ(outcome.ranks[1].code, ErrorCode::rank_failed);
    EXPECT_EQ(outcome.ranks[1].message, fmt::format("injected failure before {} (call {})",
                                                    call == 2 ? "all_reduce" : "barrier", call));
    EXPECT_EQ(outcome.ranks[0].code, ErrorCode::aborted);
    EXPECT_EQ(outcome.ranks[2].code, ErrorCode::aborted);
  }
}

TEST(FaultInjection, RunsOutOfMemory) {
  const RanksOutcome outcome =
      run_thread_ranks(3, three_calls({1, 2, FaultKind::out_of_memory}), kNoHurry);
  EXPECT_EQ(outcome.first_failed_rank, 1);
  EXPECT_EQ(outcome.ranks[1].code, ErrorCode::not_enough_memory);
}

TEST(FaultInjection, StrikesAtTheFirstBeginOfItsPhaseAndBeforeNoCall) {
  const Fault fault{1, 1, FaultKind::exception, RankPhase::backward};
  FaultInjector other(fault, 0);
  other.at_phase(RankPhase::backward);
  FaultInjector injector(fault, 1);
  injector.before_call("barrier");
  injector.at_phase(RankPhase::forward);
  try {
    injector.at_phase(RankPhase::backward);
    ADD_FAILURE() << "nothing happened";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "injected failure in backward");
  }
  injector.at_phase(RankPhase::backward);  // of the next pack
}

TEST(FaultInjection, SpoilsTheOutputsOfItsPhaseOnce) {
  FaultInjector injector({1, 1, FaultKind::nan, RankPhase::forward}, 1);
  injector.at_phase(RankPhase::forward);
  EXPECT_FALSE(injector.injects_nan(RankPhase::backward));
  EXPECT_TRUE(injector.injects_nan(RankPhase::forward));
  EXPECT_FALSE(injector.injects_nan(RankPhase::forward));
  FaultInjector other({1, 1, FaultKind::nan, RankPhase::forward}, 2);
  EXPECT_FALSE(other.injects_nan(RankPhase::forward));
}

TEST(FaultInjection, LosesTheDeviceOfItsRankOnce) {
  FaultInjector injector({1, 1, FaultKind::device_loss, RankPhase::backward}, 1);
  injector.at_phase(RankPhase::backward);
  EXPECT_FALSE(injector.injects_nan(RankPhase::backward));
  EXPECT_FALSE(injector.injects_device_loss(RankPhase::forward));
  EXPECT_TRUE(injector.injects_device_loss(RankPhase::backward));
  EXPECT_FALSE(injector.injects_device_loss(RankPhase::backward));
}

TEST(FaultInjection, LeavesWithoutAnException) {
  const Stopwatch watch;
  const RanksOutcome outcome = run_thread_ranks(3, three_calls({2, 2, FaultKind::leave}), kNoHurry);
  EXPECT_LT(watch.elapsed(), kAtOnce);
  EXPECT_EQ(outcome.first_failed_rank, 2);
  EXPECT_TRUE(outcome.ranks[2].finished);
  for (const std::size_t r : {0u, 1u}) {
    EXPECT_THAT(outcome.ranks[r].message, testing::HasSubstr("rank 2 left while rank "));
    EXPECT_THAT(outcome.ranks[r].message, testing::HasSubstr("waits in all_reduce #1 of 'group'"));
  }
}

TEST(FaultInjection, HangsForEver) {
  const Stopwatch watch;
  const RanksOutcome outcome =
      run_thread_ranks(3, three_calls({0, 3, FaultKind::hang}), kDeadline, milliseconds(60));
  EXPECT_LT(watch.elapsed(), kAtOnce);
  EXPECT_TRUE(outcome.any_hung());
  EXPECT_EQ(outcome.first_failed_rank, 0);
  EXPECT_FALSE(outcome.ranks[0].finished);
  for (const std::size_t r : {1u, 2u}) {
    EXPECT_TRUE(outcome.ranks[r].finished);
    EXPECT_EQ(outcome.ranks[r].code, ErrorCode::timeout);
    EXPECT_THAT(outcome.ranks[r].message, testing::HasSubstr("for rank 0"));
  }
}

}  // namespace
}  // namespace lossgrid
