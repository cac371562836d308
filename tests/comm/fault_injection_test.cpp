// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/fault_injection.h"

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

TEST(FaultInjectionDeathTest, DiesWithTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(run_thread_ranks(2, three_calls({1, 2, FaultKind::dies}), kNoHurry),
              testing::ExitedWithCode(134), "");
}

TEST(FaultInjection, ParsesItsText) {
  const Fault fault = parse_fault("rank=2,call=3,kind=throw");
  EXPECT_EQ(fault.rank, 2);
  EXPECT_EQ(fault.call, 3);
  EXPECT_EQ(fault.kind, FaultKind::throws);
  EXPECT_EQ(parse_fault("kind=hang,rank=0").call, 1);
  EXPECT_EQ(parse_fault("kind=hang,rank=0").kind, FaultKind::hangs);
  EXPECT_EQ(parse_fault("rank=1,kind=leave").kind, FaultKind::leaves);
  EXPECT_EQ(parse_fault("rank=1,kind=die").kind, FaultKind::dies);
}

TEST(FaultInjection, RefusesOtherTexts) {
  for (const char* text : {"", "rank=1", "kind=throw", "rank=1,kind=thrown!", "rank=-1,kind=die",
                           "rank=x,kind=die", "rank=1,call=0,kind=die", "rank=1,kind=die,kind=die",
                           "rank=1,kind=die,when=2", "rank=1,kind=die,", "rank,kind=die"}) {
    try {
      parse_fault(text);
      ADD_FAILURE() << "'" << text << "' was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage) << text << ": " << error.what();
    }
  }
}

TEST(FaultInjection, NothingHappensToOthersOrAfterTheLastCall) {
  expect_ranks_ok(3, three_calls({7, 1, FaultKind::throws}));
  expect_ranks_ok(3, three_calls({1, 4, FaultKind::throws}));
}

TEST(FaultInjection, ThrowsAtTheCallOfItsRank) {
  for (const int call : {1, 2, 3}) {
    const RanksOutcome outcome =
        run_thread_ranks(3, three_calls({1, call, FaultKind::throws}), kNoHurry);
    EXPECT_EQ(outcome.first_failed_rank, 1);
    EXPECT_EQ(outcome.ranks[1].code, ErrorCode::rank_failed);
    EXPECT_EQ(outcome.ranks[1].message, fmt::format("injected failure before {} (call {})",
                                                    call == 2 ? "all_reduce" : "barrier", call));
    EXPECT_EQ(outcome.ranks[0].code, ErrorCode::aborted);
    EXPECT_EQ(outcome.ranks[2].code, ErrorCode::aborted);
  }
}

TEST(FaultInjection, LeavesWithoutAnException) {
  const Stopwatch watch;
  const RanksOutcome outcome =
      run_thread_ranks(3, three_calls({2, 2, FaultKind::leaves}), kNoHurry);
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
  const RanksOutcome outcome = run_thread_ranks(3, three_calls({0, 3, FaultKind::hangs}),
                                                milliseconds(150), milliseconds(60));
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
