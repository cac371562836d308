// SPDX-License-Identifier: Apache-2.0
// Collectives over MPI have the bits of collectives on threads, for every size of segments. Rank 0
// has the threads, and compares.
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "comm/collective_log.h"
#include "comm/ranks.h"
#include "comm/values.h"
#include "harness/comm/call_signature.h"
#include "harness/comm/counting_communicator.h"
#include "harness/comm/process_grid.h"
#include "harness/comm/timed_communicator.h"
#include "session.h"

namespace lossgrid {
namespace {

/// Checks that `work` logs the same on threads and over MPI, for every rank.
void expect_same_as_threads(int ranks, const std::function<Log(Communicator&)>& work) {
  std::vector<std::string> names;
  std::vector<std::uint64_t> of_mpi;  // by rank
  expect_mpi_ranks_ok(ranks, [&](Communicator& world) {
    const Log log = work(world);
    std::vector<std::uint8_t> all(log.digests().size() * 8 * static_cast<std::size_t>(ranks));
    std::vector<std::uint8_t> own(log.digests().size() * 8);
    std::memcpy(own.data(), log.digests().data(), own.size());
    world.all_gather(std::span<const std::uint8_t>(own), std::span(all));
    names = log.names();
    of_mpi.resize(all.size() / 8);
    std::memcpy(of_mpi.data(), all.data(), all.size());
  });
  if (session().rank() != 0) return;
  ASSERT_FALSE(names.empty());
  ASSERT_EQ(of_mpi.size(), names.size() * static_cast<std::size_t>(ranks));
  std::mutex mutex;
  expect_ranks_ok(ranks, [&](Communicator& world) {
    const Log log = work(world);
    const std::lock_guard lock(mutex);
    ASSERT_EQ(log.names(), names);
    for (std::size_t i = 0; i < names.size(); ++i) {
      EXPECT_EQ(of_mpi[static_cast<std::size_t>(world.rank()) * names.size() + i], log.digests()[i])
          << names[i] << ", rank " << world.rank() << " of " << ranks;
    }
  });
}

TEST(MpiCommunicator, HasTheBitsOfThreads) {
  expect_same_as_threads(session().size(), log_all);
}

TEST(MpiCommunicator, WorksInWorldsThatAreSmallerThanTheJob) {
  for (int ranks = 1; ranks < session().size(); ++ranks) {
    expect_same_as_threads(ranks, [](Communicator& world) {
      Log log;
      log_reductions<float>(world, log);
      return log;
    });
  }
}

TEST(MpiCommunicator, GridsOfAllShapes) {
  const int size = session().size();
  for (int tp = 1; tp <= size; tp *= 2) {
    for (int cp = 1; tp * cp <= size; cp *= 2) {
      const int rest = size / (tp * cp);
      const int pp = rest % 2 == 0 ? 2 : 1;
      const Grid grid{tp, cp, rest / pp, false, pp};
      expect_same_as_threads(size, [&](Communicator& world) {
        CollectiveCounts counts;
        std::int64_t total_ns = 0;
        const auto counted = count_calls(world, counts);
        const auto timed = time_calls(*counted, total_ns);
        const ProcessGrid groups = make_process_grid(*timed, grid);
        EXPECT_EQ(groups.tp->size(), grid.tp);
        EXPECT_EQ(groups.cp->size(), grid.cp);
        EXPECT_EQ(groups.dp->size(), grid.dp);
        EXPECT_EQ(groups.pp->size(), grid.pp);
        EXPECT_EQ(groups.tp->rank(), groups.tp_rank());
        EXPECT_EQ(groups.cp->name(), "cp");
        Log log;
        for (Communicator* comm :
             {groups.tp.get(), groups.cp.get(), groups.dp.get(), groups.pp.get()}) {
          for (const std::size_t count : {3, 5000}) {
            std::vector<double> data = values_of<double>(world.rank(), count);
            comm->all_reduce(std::span(data), ReduceOp::sum);
            log.add(std::string(comm->name()), data);
          }
        }
        EXPECT_EQ(counts.total(), (CollectiveCount{8, 4 * 8 * 5003}));
        EXPECT_GT(total_ns, 0);
        return log;
      });
    }
  }
}

TEST(MpiCommunicator, SplitOrdersByKeyThenRank) {
  expect_mpi_ranks_ok([](Communicator& world) {
    EXPECT_EQ(world.name(), "world");
    const bool even = world.rank() % 2 == 0;
    const auto group = world.split(even ? 7 : -1, even ? -world.rank() : 0, "part");
    std::vector<int> want;
    for (int r = even ? 0 : 1; r < world.size(); r += 2) want.push_back(r);
    if (even) want = {want.rbegin(), want.rend()};
    EXPECT_EQ(group->size(), static_cast<int>(want.size()));
    std::vector<int> members(static_cast<std::size_t>(group->size()));
    const int own = world.rank();
    group->all_gather(std::span<const int>(&own, 1), std::span(members));
    EXPECT_EQ(members, want);
    EXPECT_EQ(members[static_cast<std::size_t>(group->rank())], own);
  });
}

TEST(MpiCommunicator, AllGatherInPlace) {
  for (const std::size_t count : {std::size_t{5}, std::size_t{5000}}) {
    expect_mpi_ranks_ok([&](Communicator& world) {
      std::vector<float> all(static_cast<std::size_t>(world.size()) * count);
      float* own = all.data() + static_cast<std::size_t>(world.rank()) * count;
      for (std::size_t i = 0; i < count; ++i) own[i] = value_of<float>(world.rank(), i);
      world.all_gather(std::span<const float>(own, count), std::span(all));
      int wrong = 0;
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (all[i] != value_of<float>(static_cast<int>(i / count), i % count)) ++wrong;
      }
      EXPECT_EQ(wrong, 0);
    });
  }
}

// Rank pairs run ahead of each other in crossing groups, with calls of all paths.
TEST(MpiCommunicator, KeepsManyCallsOverCrossingGroupsApart) {
  if (session().size() % 2 != 0) GTEST_SKIP() << "needs pairs";
  expect_mpi_ranks_ok([](Communicator& world) {
    const int half = world.size() / 2;
    const auto tp = world.split(world.rank() / half, world.rank() % half, "tp");
    const auto cp = world.split(world.rank() % half, world.rank() / half, "cp");
    int wrong = 0;
    for (int i = 0; i < 50; ++i) {
      std::vector<std::int64_t> data(static_cast<std::size_t>(1 + i * i * 4), world.rank());
      tp->all_reduce(std::span(data), ReduceOp::max);
      if (data.back() != world.rank() / half * half + half - 1) ++wrong;
      cp->all_reduce(std::span(data), ReduceOp::sum);
      if (data.back() != 3 * half - 2) ++wrong;
    }
    EXPECT_EQ(wrong, 0);
  });
}

// The rendezvous precedes the transfer, and `advance` is called until it is done.
TEST(MpiCommunicator, CarriesWhatGoesAnotherWay) {
  expect_mpi_ranks_ok([](Communicator& world) {
    std::int64_t sum = 0;
    for (int round = 0; round < 20; ++round) {
      int asked = 0;
      const CallSignature call{Collective::broadcast, 8, DType::f32, std::nullopt, 0, true};
      world.transfer_external(call, [&] { return ++asked == world.rank() + 1; });
      EXPECT_EQ(asked, world.rank() + 1);
      std::int64_t one = 1;
      world.all_reduce(std::span(&one, 1), ReduceOp::sum);
      sum += one;
    }
    EXPECT_EQ(sum, 20 * world.size());
  });
}

TEST(MpiCommunicator, BadArgumentsAreErrorsOfTheCaller) {
  expect_mpi_ranks_ok([](Communicator& world) {
    EXPECT_THROW(world.all_reduce(nullptr, 0, DType::bf16, ReduceOp::sum), Error);
    EXPECT_THROW(world.reduce_scatter(nullptr, nullptr, 0, DType::u8, ReduceOp::sum), Error);
    EXPECT_THROW(world.broadcast(nullptr, 0, DType::f32, world.size()), Error);
    world.barrier();
  });
}

TEST(MpiRanks, TheJobHasSoManyRanks) {
  const auto nothing = [](Communicator&) {};
  EXPECT_THROW(run_mpi_ranks(session(), 0, nothing, kLongDeadline), Error);
  EXPECT_THROW(run_mpi_ranks(session(), session().size() + 1, nothing, kLongDeadline), Error);
  if (session().size() == 1) return;
  EXPECT_THROW(run_mpi_ranks(session(), session().rank() == 0 ? 1 : 2, nothing, kLongDeadline),
               Error);
}

TEST(MpiRanks, RanksMayEndAtDifferentTimes) {
  for (int i = 0; i < 20; ++i) {
    expect_mpi_ranks_ok([](Communicator& world) {
      const auto pair = world.split(world.rank() / 2, 0, "pair");
      add_up(world, 5000);
      if (world.rank() < 2) return;
      for (int k = 0; k < world.rank() / 2; ++k) pair->barrier();
    });
  }
}

// No rank waits for another one here: nothing is lost, and the job ends by MPI_Finalize.
TEST(MpiRanks, ExceptionsAreTheSameOutcomeOnEveryRank) {
  const RanksOutcome outcome = run_mpi_ranks(
      session(), session().size(),
      [](Communicator&) { throw Error(ErrorCode::unsupported, "no such\nkernel \xff"); },
      kLongDeadline);
  EXPECT_GE(outcome.first_failed_rank, 0);
  for (const RankOutcome& rank : outcome.ranks) {
    EXPECT_TRUE(rank.finished);
    EXPECT_EQ(rank.code, ErrorCode::unsupported);
    EXPECT_TRUE(rank.message.starts_with("no such kernel "));
  }
}

}  // namespace
}  // namespace lossgrid
