// SPDX-License-Identifier: Apache-2.0
#include "harness/device/kernel/rank_threads.h"

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "harness/core/error.h"

namespace lossgrid {
namespace {

constexpr int kAllThreads = 1 << 20;

class RankThreads : public testing::Test {
 public:
  ~RankThreads() override {
    set_threads_per_rank(0);
    set_rank_threads(kAllThreads);
    share_machine(0, {});
  }
};

TEST_F(RankThreads, AreASettingOfTheCallingThread) {
  set_rank_threads(kAllThreads);
  const int all = rank_threads();
  EXPECT_GE(all, 1);
  std::thread([] { set_rank_threads(1); }).join();
  EXPECT_EQ(rank_threads(), all);
  set_rank_threads(0);
  EXPECT_EQ(rank_threads(), 1);
  int fresh = 0;
  std::thread([&] { fresh = rank_threads(); }).join();
  EXPECT_GE(fresh, all);
  set_rank_threads(all + 1);
  EXPECT_EQ(rank_threads(), all);
}

TEST_F(RankThreads, RanksShareTheCores) {
  const int cores = core_share(1).cores;
  EXPECT_EQ(core_share(1).threads_per_rank, cores);
  EXPECT_FALSE(core_share(1).oversubscribed);
  EXPECT_EQ(core_share(cores).threads_per_rank, 1);
  EXPECT_FALSE(core_share(cores).oversubscribed);
  EXPECT_EQ(core_share(cores + 1).threads_per_rank, 1);
  EXPECT_TRUE(core_share(cores + 1).oversubscribed);
  share_cores(cores);
  EXPECT_EQ(rank_threads(), 1);
}

TEST_F(RankThreads, OneSettingOverrulesTheShares) {
  const int cores = core_share(1).cores;
  set_threads_per_rank(1);
  EXPECT_EQ(core_share(1).threads_per_rank, 1);
  set_threads_per_rank(cores);
  EXPECT_TRUE(core_share(2).oversubscribed);
  EXPECT_THROW(set_threads_per_rank(-1), Error);
  EXPECT_THROW(set_threads_per_rank(cores + 1), Error);
}

TEST_F(RankThreads, AProcessUsesTheCoresItMayAndItsShareBesideOthers) {
  EXPECT_EQ(process_threads(), static_cast<int>(own_cores().size()));
  share_machine(0, {{0, {0, 1, 2, 3}}});
  EXPECT_EQ(process_threads(), 4);
  share_machine(1, {{0, {0, 1, 2, 3}}, {1, {0, 1, 2, 3}}});
  EXPECT_EQ(process_threads(), 2);
  share_machine(1, {{0, {0, 1}}, {1, {2, 3, 4}}});  // each bound to its own cores
  EXPECT_EQ(process_threads(), 3);
  share_machine(2, {{0, {0, 1}}, {1, {0, 1}}, {2, {0, 1}}});
  EXPECT_EQ(process_threads(), 1);
  share_machine(0, {{0, {0}}, {1, {0}}, {2, {0}}});
  EXPECT_EQ(process_threads(), 1);
}

TEST_F(RankThreads, ParallelForCallsTheBodyOnceForEveryIndex) {
  set_rank_threads(kAllThreads);
  for (const std::int64_t count : {0, 1, 2, 3, 1000}) {
    std::vector<std::atomic<int>> calls(static_cast<std::size_t>(count));
    parallel_for(count, [&](std::int64_t begin, std::int64_t end) {
      EXPECT_LT(begin, end);
      for (std::int64_t i = begin; i < end; ++i) ++calls[static_cast<std::size_t>(i)];
    });
    for (const auto& c : calls) EXPECT_EQ(c, 1) << count;
  }
}

TEST_F(RankThreads, ParallelForUsesTheThreadsOfTheRank) {
  const int threads = core_share(1).cores;
  set_rank_threads(threads);
  std::atomic<int> parts{0};
  parallel_for(1000, [&](std::int64_t, std::int64_t) { ++parts; });
  EXPECT_EQ(parts, threads);
  set_rank_threads(1);
  parts = 0;
  parallel_for(1000, [&](std::int64_t begin, std::int64_t end) {
    ++parts;
    EXPECT_EQ(end - begin, 1000);
  });
  EXPECT_EQ(parts, 1);
}

}  // namespace
}  // namespace lossgrid
