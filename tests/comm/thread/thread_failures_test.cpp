// SPDX-License-Identifier: Apache-2.0
// Failing runs: the error on every rank, and that it comes at once.
#include <array>
#include <atomic>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "harness/comm/process_grid.h"
#include "ranks.h"

namespace lossgrid {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

/// Returns the outcome of a run that must end by itself, long before its deadline.
RanksOutcome run_briefly(int ranks, const std::function<void(Communicator&)>& body) {
  const Stopwatch watch;
  RanksOutcome outcome = run_thread_ranks(ranks, body, kNoHurry);
  EXPECT_LT(watch.elapsed(), kAtOnce);
  EXPECT_FALSE(outcome.all_ok());
  EXPECT_FALSE(outcome.any_hung());
  for (const RankOutcome& rank : outcome.ranks) {
    EXPECT_EQ(rank.message.find('\n'), std::string::npos) << rank.message;
    EXPECT_EQ(rank.ok, rank.message.empty());
  }
  return outcome;
}

TEST(ThreadFailures, AThrowWakesAllAndNamesTheRank) {
  const RanksOutcome outcome = run_briefly(4, [](Communicator& world) {
    add_up(world);
    if (world.rank() == 2) throw Error(ErrorCode::bad_input, "no such\ncolumn");
    add_up(world);
  });
  EXPECT_EQ(outcome.first_failed_rank, 2);
  EXPECT_EQ(outcome.ranks[2].code, ErrorCode::bad_input);
  EXPECT_EQ(outcome.ranks[2].message, "no such column");
  for (const std::size_t r : {0u, 1u, 3u}) {
    EXPECT_TRUE(outcome.ranks[r].finished);
    EXPECT_EQ(outcome.ranks[r].code, ErrorCode::aborted);
    EXPECT_EQ(outcome.ranks[r].message, "rank 2 failed: no such column");
  }
}

TEST(ThreadFailures, AThrowWakesRanksThatWaitInOtherGroups) {
  const RanksOutcome outcome = run_briefly(4, [](Communicator& world) {
    const ProcessGrid grid = make_process_grid(world, {2, 2});
    if (world.rank() == 0) {
      wait_until(ThreadRankState::waiting, {2, 3});
      throw std::runtime_error("boom");
    }
    if (world.rank() == 1) return;  // in the group of rank 0, but nobody waits for it there
    (world.rank() == 2 ? grid.cp : grid.tp)->barrier();
  });
  // Rank 2 waits for 0 in 'cp', rank 3 for 2 in 'tp'.
  EXPECT_EQ(outcome.first_failed_rank, 0);
  EXPECT_EQ(outcome.ranks[0].code, ErrorCode::rank_failed);
  EXPECT_EQ(outcome.ranks[0].message, "boom");
  EXPECT_TRUE(outcome.ranks[1].ok);
  EXPECT_EQ(outcome.ranks[2].code, ErrorCode::aborted);
  EXPECT_EQ(outcome.ranks[3].code, ErrorCode::aborted);
}

TEST(ThreadFailures, EveryKindOfExceptionHasItsCode) {
  const auto code_of = [](const std::function<void()>& thrower) {
    const RanksOutcome outcome = run_briefly(1, [&](Communicator&) { thrower(); });
    EXPECT_EQ(outcome.first_failed_rank, 0);
    return outcome.ranks[0].code;
  };
  EXPECT_EQ(code_of([] { throw std::bad_alloc(); }), ErrorCode::not_enough_memory);
  EXPECT_EQ(code_of([] { throw std::logic_error("x"); }), ErrorCode::rank_failed);
  EXPECT_EQ(code_of([] { throw 7; }), ErrorCode::rank_failed);
  EXPECT_EQ(code_of([] { throw Error(ErrorCode::unsupported, "x"); }), ErrorCode::unsupported);
}

TEST(ThreadFailures, LaterCallsThrowAbortedInEveryGroup) {
  std::atomic<int> aborted{0};
  run_briefly(4, [&](Communicator& world) {
    const ProcessGrid grid = make_process_grid(world, {2, 2});
    if (world.rank() == 1) throw std::runtime_error("boom");
    try {
      world.barrier();
    } catch (const Error&) {
    }
    for (Communicator* comm : {&world, grid.tp.get(), grid.cp.get()}) {
      try {
        comm->broadcast(nullptr, 0, DType::f32, 0);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::aborted) ++aborted;
      }
      try {
        comm->split(0, 0, "late");
      } catch (const Error& error) {
        if (error.code() == ErrorCode::aborted) ++aborted;
      }
    }
  });
  EXPECT_EQ(aborted.load(), 3 * 6);
}

TEST(ThreadFailures, AbortNamesItsRankAndReason) {
  const RanksOutcome outcome = run_briefly(3, [](Communicator& world) {
    if (world.rank() == 1) return world.abort("seen enough");
    world.barrier();
  });
  EXPECT_EQ(outcome.first_failed_rank, 1);
  EXPECT_EQ(outcome.ranks[1].code, ErrorCode::rank_failed);
  for (const std::size_t r : {0u, 2u}) {
    EXPECT_EQ(outcome.ranks[r].code, ErrorCode::aborted);
    EXPECT_EQ(outcome.ranks[r].message, "rank 1 aborted the run: seen enough");
  }
}

TEST(ThreadFailures, ARankThatLeavesFailsThoseWhoWaitForIt) {
  const RanksOutcome outcome = run_briefly(4, [](Communicator& world) {
    for (int i = 0; i < 4; ++i) add_up(world);
    if (world.rank() == 3) return wait_until(ThreadRankState::waiting, {0, 1, 2});
    add_up(world);
  });
  EXPECT_EQ(outcome.first_failed_rank, 3);
  EXPECT_EQ(outcome.ranks[3].code, ErrorCode::rank_failed);
  for (const int r : {0, 1, 2}) {
    const RankOutcome& rank = outcome.ranks[static_cast<std::size_t>(r)];
    EXPECT_EQ(rank.code, ErrorCode::rank_failed);
    EXPECT_EQ(rank.message,
              fmt::format("rank 3 left while rank {} waits in all_reduce #5 of 'world'", r));
  }
}

// The rank has left before the first one comes to wait for it.
TEST(ThreadFailures, ARankThatHasLeftFailsThoseWhoCome) {
  const RanksOutcome outcome = run_briefly(3, [](Communicator& world) {
    if (world.rank() == 0) return;
    wait_until(ThreadRankState::left, {0});
    world.barrier();
  });
  EXPECT_EQ(outcome.first_failed_rank, 0);
  for (const std::size_t r : {1u, 2u}) {
    EXPECT_THAT(outcome.ranks[r].code, AnyOf(ErrorCode::rank_failed, ErrorCode::aborted));
    EXPECT_THAT(outcome.ranks[r].message, HasSubstr("rank 0 left while rank"));
  }
}

TEST(ThreadFailures, LeavingIsNoticedInSplitGroupsByWorldRank) {
  const RanksOutcome outcome = run_briefly(4, [](Communicator& world) {
    const ProcessGrid grid = make_process_grid(world, {2, 2});
    grid.tp->barrier();
    if (world.rank() == 3) return wait_until(ThreadRankState::waiting, {0, 1, 2});
    if (world.rank() == 2) grid.tp->barrier();  // with rank 3
    if (world.rank() == 1) grid.cp->barrier();  // with rank 3
    if (world.rank() == 0) grid.tp->barrier();  // with rank 1, which never comes
  });
  EXPECT_EQ(outcome.first_failed_rank, 3);
  EXPECT_EQ(outcome.ranks[2].code, ErrorCode::rank_failed);
  EXPECT_EQ(outcome.ranks[2].message, "rank 3 left while rank 2 waits in barrier #2 of 'tp'");
  EXPECT_EQ(outcome.ranks[1].code, ErrorCode::rank_failed);
  EXPECT_EQ(outcome.ranks[1].message, "rank 3 left while rank 1 waits in barrier #1 of 'cp'");
  EXPECT_EQ(outcome.ranks[0].code, ErrorCode::aborted);
}

// Ranks may end at different times when nobody waits for them.
TEST(ThreadFailures, LeavingAfterTheLastCommonCallIsFine) {
  for (int i = 0; i < 20; ++i) {
    expect_ranks_ok(4, [](Communicator& world) {
      const ProcessGrid grid = make_process_grid(world, {2, 2});
      add_up(world, 5000);
      if (world.rank() < 2) return;
      grid.tp->barrier();
    });
  }
}

void expect_mismatch(const std::function<void(Communicator&)>& rank0,
                     const std::function<void(Communicator&)>& rank2, const std::string& want0,
                     const std::string& want2) {
  const RanksOutcome outcome = run_briefly(3, [&](Communicator& world) {
    world.barrier();
    (world.rank() == 2 ? rank2 : rank0)(world);
  });
  EXPECT_EQ(outcome.first_failed_rank, 2);
  for (const RankOutcome& rank : outcome.ranks) {
    EXPECT_EQ(rank.code, ErrorCode::rank_failed);
    EXPECT_EQ(rank.message,
              fmt::format("ranks disagree in call #2 of 'world': rank 0 calls {}, rank 2 calls {}",
                          want0, want2));
  }
}

TEST(ThreadFailures, CallsThatDoNotMatchFailAllRanks) {
  const auto reduce = [](std::size_t count, DType dtype, ReduceOp op) {
    return [=](Communicator& world) {
      std::vector<double> data(count);
      world.all_reduce(data.data(), count, dtype, op);
    };
  };
  const auto broadcast = [](int root) {
    return [=](Communicator& world) {
      std::array<float, 2> data{};
      world.broadcast(data.data(), 2, DType::f32, root);
    };
  };
  const auto barrier = [](Communicator& world) { world.barrier(); };
  const auto sum8 = reduce(8, DType::f32, ReduceOp::sum);
  expect_mismatch(sum8, reduce(9, DType::f32, ReduceOp::sum), "all_reduce sum of 8 f32",
                  "all_reduce sum of 9 f32");
  expect_mismatch(sum8, reduce(8, DType::i32, ReduceOp::sum), "all_reduce sum of 8 f32",
                  "all_reduce sum of 8 i32");
  expect_mismatch(sum8, reduce(8, DType::f32, ReduceOp::max), "all_reduce sum of 8 f32",
                  "all_reduce max of 8 f32");
  expect_mismatch(sum8, reduce(80000, DType::f32, ReduceOp::sum), "all_reduce sum of 8 f32",
                  "all_reduce sum of 80000 f32");
  expect_mismatch(broadcast(0), broadcast(1), "broadcast of 2 f32 from 0",
                  "broadcast of 2 f32 from 1");
  expect_mismatch(barrier, sum8, "barrier", "all_reduce sum of 8 f32");
  expect_mismatch(
      sum8, [](Communicator& world) { world.split(0, 0, "x"); }, "all_reduce sum of 8 f32",
      "split");
  // Nothing but the operation differs.
  expect_mismatch(
      sum8,
      [](Communicator& world) {
        const std::array<float, 24> send{};
        std::array<float, 8> receive{};
        world.reduce_scatter(send.data(), receive.data(), 8, DType::f32, ReduceOp::sum);
      },
      "all_reduce sum of 8 f32", "reduce_scatter sum of 8 f32");
  expect_mismatch(
      barrier, [](Communicator& world) { world.all_gather(nullptr, nullptr, 0, DType::u8); },
      "barrier", "all_gather of 0 u8");
  // The same bytes of another operation.
  expect_mismatch([](Communicator& world) { world.all_gather(nullptr, nullptr, 0, DType::f32); },
                  [](Communicator& world) { world.broadcast(nullptr, 0, DType::f32, 0); },
                  "all_gather of 0 f32", "broadcast of 0 f32 from 0");
}

TEST(ThreadFailures, WaitingForEachOtherInDifferentGroupsFails) {
  const RanksOutcome outcome = run_briefly(4, [](Communicator& world) {
    const ProcessGrid grid = make_process_grid(world, {2, 2});
    if (world.rank() == 1) {
      grid.cp->barrier();
    } else {
      grid.tp->barrier();
    }
    world.barrier();
  });
  // Rank 0 waits in 'tp' for 1, which waits in 'cp' for 3, which waits in 'world'.
  EXPECT_THAT(outcome.first_failed_rank, 1);
  for (const RankOutcome& rank : outcome.ranks) {
    EXPECT_EQ(rank.code, ErrorCode::rank_failed);
    EXPECT_EQ(rank.message,
              "all ranks wait: rank 0 in barrier #1 of 'tp', rank 1 in barrier #1 of 'cp'");
  }
}

// Found when the last rank that could have helped leaves, from a group that nobody waits in.
TEST(ThreadFailures, WaitingForEachOtherIsSeenWhenTheOthersLeave) {
  const RanksOutcome outcome = run_briefly(3, [](Communicator& world) {
    const auto even = world.split(world.rank() == 2 ? 1 : 0, 0, "pair");
    const auto again = world.split(world.rank() == 2 ? 1 : 0, 0, "again");
    if (world.rank() == 2) return wait_until(ThreadRankState::waiting, {0, 1});
    (world.rank() == 0 ? even : again)->barrier();
  });
  EXPECT_TRUE(outcome.ranks[2].ok);
  EXPECT_EQ(outcome.ranks[0].message,
            "all ranks wait: rank 0 in barrier #1 of 'pair', rank 1 in barrier #1 of 'again'");
}

TEST(ThreadFailures, BadArgumentsAreErrorsOfTheCaller) {
  const RanksOutcome outcome = run_briefly(2, [](Communicator& world) {
    if (world.rank() == 0) world.all_reduce(nullptr, 0, DType::bf16, ReduceOp::sum);
    if (world.rank() == 1) world.broadcast(nullptr, 0, DType::f32, 2);
  });
  EXPECT_EQ(outcome.ranks[0].code, ErrorCode::internal);
  EXPECT_EQ(outcome.ranks[1].code, ErrorCode::internal);
  EXPECT_THROW(run_thread_ranks(
                   0, [](Communicator&) {}, kNoHurry),
               Error);
}

// A failure hits while peers read each other's large buffers: those must outlive the reads.
TEST(ThreadFailures, BuffersOutliveTheReadsOfPeers) {
  for (int repeat = 0; repeat < 30; ++repeat) {
    const RanksOutcome outcome = run_briefly(5, [&](Communicator& world) {
      const auto group = world.split(world.rank() == 4 ? 1 : 0, 0, "group");
      if (world.rank() == 4) {
        std::this_thread::sleep_for(std::chrono::microseconds(100 * repeat));
        throw std::runtime_error("boom");
      }
      while (true) {
        std::vector<float> data(20000, 1.0f);
        std::vector<float> all(80000);
        group->all_reduce(std::span(data), ReduceOp::sum);
        EXPECT_EQ(data.back(), 4.0f);
        group->all_gather(std::span<const float>(data), std::span(all));
        EXPECT_EQ(all.back(), 4.0f);
        group->reduce_scatter(std::span<const float>(all), std::span(data), ReduceOp::max);
        group->broadcast(std::span(data), 1);
      }
    });
    EXPECT_EQ(outcome.first_failed_rank, 4);
    EXPECT_EQ(outcome.ranks[0].code, ErrorCode::aborted);
  }
}

// Others notice the end of a connection before the rank that ended has reported its cause.
TEST(ThreadFailures, OneInACollectiveGivesWayToOneOfItsOwn) {
  const auto fail_first = [](Cause first, Cause second) {
    return run_briefly(2, [&](Communicator& world) {
      if (world.rank() == 1) wait_until(ThreadRankState::left, {0});
      const Cause cause = world.rank() == 0 ? first : second;
      throw Error(ErrorCode::rank_failed, "boom").with_cause(cause);
    });
  };
  EXPECT_EQ(fail_first(Cause::collective, Cause::own).first_failed_rank, 1);
  EXPECT_EQ(fail_first(Cause::others, Cause::collective).first_failed_rank, 1);
  EXPECT_EQ(fail_first(Cause::unknown, Cause::own).first_failed_rank, 0);
  EXPECT_EQ(fail_first(Cause::own, Cause::own).first_failed_rank, 0);
  EXPECT_EQ(fail_first(Cause::collective, Cause::collective).first_failed_rank, 0);
}

}  // namespace
}  // namespace lossgrid
