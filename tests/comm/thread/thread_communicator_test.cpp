// SPDX-License-Identifier: Apache-2.0
// Collectives on threads against plain loops over the values of all ranks.
#include "harness/comm/thread/thread_communicator.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <limits>
#include <thread>
#include <vector>

#include "harness/comm/consensus.h"
#include "harness/core/process/heap_watch.h"
#include "ranks.h"
#include "values.h"

namespace lossgrid {
namespace {

constexpr std::array<int, 5> kSizes{1, 2, 3, 4, 8};
// Sizes on both sides of the change from staged to direct payloads, and with ragged segments.
constexpr std::array<std::size_t, 8> kCounts{0, 1, 7, 512, 513, 1024, 1025, 20011};

template <typename T>
T combine(T a, T b, ReduceOp op) {
  if (op == ReduceOp::max) return std::max(a, b);
  if (op == ReduceOp::min) return std::min(a, b);
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return a + b;
  }
}

/// Returns elements `begin` .. of the reduction over ranks.
template <typename T>
std::vector<T> reduced(int ranks, std::size_t begin, std::size_t count, ReduceOp op) {
  std::vector<T> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = value_of<T>(0, begin + i);
    for (int r = 1; r < ranks; ++r) out[i] = combine(out[i], value_of<T>(r, begin + i), op);
  }
  return out;
}

template <typename T>
class Reductions : public testing::Test {};
using Reducible = testing::Types<double, float, std::int64_t, std::int32_t>;
TYPED_TEST_SUITE(Reductions, Reducible);

TYPED_TEST(Reductions, AllReduceIsTheSumInRankOrderOnAllRanks) {
  using T = TypeParam;
  for (const int ranks : kSizes) {
    expect_ranks_ok(ranks, [&](Communicator& world) {
      for (const std::size_t count : kCounts) {
        for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
          std::vector<T> data = values_of<T>(world.rank(), count + 1);
          const T behind = data[count];
          world.all_reduce(std::span(data.data(), count), op);
          const std::vector<T> want = reduced<T>(ranks, 0, count, op);
          EXPECT_TRUE(same_bits(data.data(), want.data(), count))
              << ranks << " ranks, rank " << world.rank() << ", " << count << ' ' << name(op);
          EXPECT_EQ(data[count], behind);
        }
      }
    });
  }
}

TYPED_TEST(Reductions, ReduceScatterGivesEveryRankItsPart) {
  using T = TypeParam;
  for (const int ranks : kSizes) {
    expect_ranks_ok(ranks, [&](Communicator& world) {
      const auto size = static_cast<std::size_t>(ranks);
      for (const std::size_t count : kCounts) {
        for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
          const std::vector<T> send = values_of<T>(world.rank(), count * size);
          std::vector<T> receive(count);
          world.reduce_scatter(std::span<const T>(send), std::span(receive), op);
          const std::size_t begin = static_cast<std::size_t>(world.rank()) * count;
          const std::vector<T> want = reduced<T>(ranks, begin, count, op);
          EXPECT_TRUE(same_bits(receive.data(), want.data(), count))
              << ranks << " ranks, rank " << world.rank() << ", " << count << ' ' << name(op);
          EXPECT_EQ(send, values_of<T>(world.rank(), count * size));
        }
      }
    });
  }
}

template <typename T>
class Movements : public testing::Test {};
using AnyType = testing::Types<double, float, bf16, std::int64_t, std::int32_t, std::uint8_t>;
TYPED_TEST_SUITE(Movements, AnyType);

TYPED_TEST(Movements, AllGatherPlacesByRank) {
  using T = TypeParam;
  for (const int ranks : kSizes) {
    expect_ranks_ok(ranks, [&](Communicator& world) {
      for (const std::size_t count : kCounts) {
        const std::vector<T> send = values_of<T>(world.rank(), count);
        std::vector<T> receive(count * static_cast<std::size_t>(ranks));
        world.all_gather(std::span<const T>(send), std::span(receive));
        for (int r = 0; r < ranks; ++r) {
          const std::vector<T> want = values_of<T>(r, count);
          EXPECT_TRUE(
              same_bits(receive.data() + static_cast<std::size_t>(r) * count, want.data(), count))
              << ranks << " ranks, rank " << world.rank() << " from " << r << ", " << count;
        }
      }
    });
  }
}

TYPED_TEST(Movements, BroadcastFromEveryRoot) {
  using T = TypeParam;
  for (const int ranks : kSizes) {
    expect_ranks_ok(ranks, [&](Communicator& world) {
      for (const std::size_t count : kCounts) {
        for (int root = 0; root < ranks; ++root) {
          std::vector<T> data = values_of<T>(world.rank(), count);
          world.broadcast(std::span(data), root);
          EXPECT_EQ(data, values_of<T>(root, count)) << "root " << root << ", " << count;
        }
      }
    });
  }
}

// The send may lie at its own place in the result, as with NCCL.
TEST(ThreadCommunicator, AllGatherInPlace) {
  for (const std::size_t count : {std::size_t{5}, std::size_t{5000}}) {
    expect_ranks_ok(4, [&](Communicator& world) {
      std::vector<float> all(4 * count);
      float* own = all.data() + static_cast<std::size_t>(world.rank()) * count;
      for (std::size_t i = 0; i < count; ++i) own[i] = value_of<float>(world.rank(), i);
      world.all_gather(std::span<const float>(own, count), std::span(all));
      for (std::size_t i = 0; i < all.size(); ++i) {
        ASSERT_EQ(all[i], value_of<float>(static_cast<int>(i / count), i % count)) << i;
      }
    });
  }
}

TEST(ThreadCommunicator, ExtremaPropagateNaNOfAnyRank) {
  for (const std::size_t count : {std::size_t{8}, std::size_t{8000}}) {
    expect_ranks_ok(4, [&](Communicator& world) {
      for (const ReduceOp op : {ReduceOp::max, ReduceOp::min}) {
        std::vector<float> data = values_of<float>(world.rank(), count);
        data[static_cast<std::size_t>(world.rank())] = std::numeric_limits<float>::quiet_NaN();
        world.all_reduce(std::span(data), op);
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_EQ(std::isnan(data[i]), i < 4) << name(op) << " at " << i;
        }
      }
    });
  }
}

/// Checks that no rank leaves `synchronise` before the last one has entered it.
void expect_synchronises(const std::function<void(Communicator&)>& synchronise) {
  std::atomic<int> entered{0};
  expect_ranks_ok(4, [&](Communicator& world) {
    for (int round = 1; round <= 20; ++round) {
      if (world.rank() == round % 4) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      ++entered;
      synchronise(world);
      EXPECT_GE(entered.load(), 4 * round);
    }
  });
}

TEST(ThreadCommunicator, BarrierSynchronises) {
  expect_synchronises([](Communicator& world) { world.barrier(); });
}

TEST(ThreadCommunicator, EmptyCollectivesSynchronise) {
  expect_synchronises(
      [](Communicator& world) { world.all_reduce(nullptr, 0, DType::f32, ReduceOp::sum); });
  expect_synchronises(
      [](Communicator& world) { world.all_gather(nullptr, nullptr, 0, DType::bf16); });
  expect_synchronises([](Communicator& world) {
    world.reduce_scatter(nullptr, nullptr, 0, DType::f64, ReduceOp::max);
  });
  expect_synchronises([](Communicator& world) { world.broadcast(nullptr, 0, DType::u8, 3); });
}

TEST(ThreadCommunicator, SplitOrdersByKeyThenRank) {
  expect_ranks_ok(6, [](Communicator& world) {
    EXPECT_EQ(world.name(), "world");
    // Even ranks in reverse, odd ranks with equal keys.
    const bool even = world.rank() % 2 == 0;
    const auto group = world.split(even ? 7 : -1, even ? -world.rank() : 0, "part");
    EXPECT_EQ(group->name(), "part");
    ASSERT_EQ(group->size(), 3);
    EXPECT_EQ(group->rank(), even ? 2 - world.rank() / 2 : world.rank() / 2);
    std::vector<int> members(3);
    const int own = world.rank();
    group->all_gather(std::span<const int>(&own, 1), std::span(members));
    EXPECT_EQ(members, even ? (std::vector<int>{4, 2, 0}) : (std::vector<int>{1, 3, 5}));
  });
}

TEST(ThreadCommunicator, SplitsOfSplitsAndRepeatedSplitsAreApart) {
  expect_ranks_ok(8, [](Communicator& world) {
    const auto half = world.split(world.rank() / 4, world.rank(), "half");
    const auto quarter = half->split(half->rank() / 2, half->rank(), "quarter");
    const auto again = half->split(half->rank() / 2, half->rank(), "again");
    std::int32_t sum = world.rank();
    quarter->all_reduce(std::span<std::int32_t>(&sum, 1), ReduceOp::sum);
    EXPECT_EQ(sum, world.rank() / 2 * 4 + 1);
    std::int32_t other = 1;
    again->all_reduce(std::span(&other, 1), ReduceOp::sum);
    EXPECT_EQ(other, 2);
  });
}

// Rank pairs run ahead of each other; staged buffers are used again while others still read.
TEST(ThreadCommunicator, KeepsManyCollectivesOverCrossingGroupsApart) {
  expect_ranks_ok(8, [](Communicator& world) {
    const int tp_rank = world.rank() % 4;
    const int cp_rank = world.rank() / 4;
    const auto tp = world.split(cp_rank, tp_rank, "tp");
    const auto cp = world.split(tp_rank, cp_rank, "cp");
    for (int i = 0; i < 400; ++i) {
      std::array<std::int64_t, 3> data{i + world.rank(), i, world.rank()};
      tp->all_reduce(std::span<std::int64_t>(data), ReduceOp::sum);
      EXPECT_EQ(data[0], 4 * i + 16 * cp_rank + 6);
      cp->all_reduce(std::span<std::int64_t>(data), ReduceOp::max);
      EXPECT_EQ(data[2], 22);
      if (i % 7 == world.rank() % 3) std::this_thread::yield();
      std::array<std::int64_t, 12> all{};
      tp->all_gather(std::span<const std::int64_t>(data), std::span<std::int64_t>(all));
      EXPECT_EQ(all[3], 4 * i + 22);
      if (i % 50 == 0) {
        std::vector<float> large(3000, static_cast<float>(world.rank()));
        world.all_reduce(std::span(large), ReduceOp::sum);
        EXPECT_EQ(std::count(large.begin(), large.end(), 28.0f), 3000);
      }
    }
  });
}

// Arrays with a number for every rank may be made by the last rank to arrive, for all of them. If
// each of n ranks makes one they take n^2.
TEST(ThreadCommunicator, OneRankMakesTheArraysAsLongAsTheWorld) {
  constexpr std::size_t kRanks = 512;
  std::atomic<std::int64_t> long_arrays{0};
  expect_ranks_ok(kRanks, [&](Communicator& world) {
    HeapWatch heap(kRanks * sizeof(std::int32_t));
    {
      const HeapWatchScope scope(&heap);
      const auto all = world.split(0, -world.rank(), "all");
      std::int64_t sum = 1;
      all->all_reduce(std::span(&sum, 1), ReduceOp::sum);
      EXPECT_EQ(sum, static_cast<std::int64_t>(kRanks));
      EXPECT_EQ(all->rank(), static_cast<int>(kRanks) - 1 - world.rank());
      require_same_text(*all, "the same", "text");
      all->barrier();
    }
    long_arrays += heap.allocations();
  });
  // It is seen that they are counted: members, their places, calls and payloads of the group.
  EXPECT_GE(long_arrays.load(), 3);
  EXPECT_LT(long_arrays.load(), 40);
}

// A spinning wait would use processor time of this process.
TEST(ThreadCommunicator, WaitingRanksUseNoProcessor) {
  const std::clock_t before = std::clock();
  expect_ranks_ok(8, [](Communicator& world) {
    if (world.rank() == 3) std::this_thread::sleep_for(std::chrono::milliseconds(400));
    world.barrier();
  });
  const double seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  EXPECT_LT(seconds, 0.2);
}

// 8 ranks on 2 cores need some 0.1 ms a call; the bound leaves room for sanitizers. Time of the
// processor, which neighbours do not lengthen.
TEST(ThreadCommunicator, SmallCollectivesAreCheap) {
  const std::clock_t before = std::clock();
  expect_ranks_ok(8, [](Communicator& world) {
    float value = 1.0f;
    for (int i = 0; i < 1000; ++i) world.all_reduce(std::span(&value, 1), ReduceOp::max);
  });
  const double seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  RecordProperty("us_per_call", static_cast<int>(1000 * seconds));
  EXPECT_LT(seconds, 4);
}

}  // namespace
}  // namespace lossgrid
