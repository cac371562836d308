// SPDX-License-Identifier: Apache-2.0
// Bugs of kernels that a loop over threads cannot show, planted: fibers find each.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fibers/fiber_block.h"
#include "harness/core/error.h"
#include "harness/core/process/sanitizers.h"

namespace lossgrid {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Writes to out[t] the number that thread t + 1 has put into shared memory.
struct PassOn {
  int* out;
  bool has_barrier;

  template <typename Block>
  void operator()(Block& block) const {
    auto* shared = reinterpret_cast<int*>(block.shared());
    block.run([&](int t) { shared[t] = t; });
    if (has_barrier) block.sync();
    block.run([&](int t) { out[t] = shared[(t + 1) % kBlockThreads]; });
  }
};

constexpr std::size_t kSharedBytes = kBlockThreads * sizeof(int);

std::vector<int> passed_on(bool has_barrier, std::uint64_t seed) {
  std::vector<int> out(kBlockThreads);
  FiberLauncher({seed})(PassOn{out.data(), has_barrier}, 1, kSharedBytes);
  return out;
}

std::vector<int> right_numbers() {
  std::vector<int> out(kBlockThreads);
  HostLauncher()(PassOn{out.data(), true}, 1, kSharedBytes);
  return out;
}

TEST(Fibers, RightKernelsHaveTheSameResultsInAnyOrder) {
  for (const std::uint64_t seed : {1, 2, 3}) EXPECT_EQ(passed_on(true, seed), right_numbers());
}

TEST(FibersDeathTest, AMissingBarrierIsFound) {
  if (LOSSGRID_TSAN) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(passed_on(false, 1), testing::ExitedWithCode(66), "data race");
  } else {
    EXPECT_NE(passed_on(false, 1), right_numbers());
  }
}

TEST(FibersDeathTest, ABarrierThatIsLeftOutOfARightKernelIsFound) {
  const auto run = [] {
    std::vector<int> out(kBlockThreads);
    FiberLauncher({1, 0})(PassOn{out.data(), true}, 1, kSharedBytes);
    return out;
  };
  if (LOSSGRID_TSAN) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(run(), testing::ExitedWithCode(66), "data race");
  } else {
    EXPECT_NE(run(), right_numbers());
  }
}

/// Blocks that write the same place; the last one wins.
struct WriteOwnIndex {
  std::int64_t* out;

  template <typename Block>
  void operator()(Block& block) const {
    block.one([&] { *out = block.index(); });
  }
};

TEST(Fibers, BlocksRunInAnyOrder) {
  std::vector<std::int64_t> last;
  if (LOSSGRID_TSAN) GTEST_SKIP() << "a data race ends the process";
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    FiberLauncher({seed})(WriteOwnIndex{&last.emplace_back()}, 5, 0);
  }
  EXPECT_THAT(last, testing::Contains(testing::Ne(last.front())));
}

/// Runs `code` of every thread of a block.
struct Run {
  std::function<void(FiberBlock&, int)> code;

  void operator()(FiberBlock& block) const {
    block.run([&](int thread) { code(block, thread); });
  }
};

std::string error_of(const std::function<void(FiberBlock&, int)>& code) {
  try {
    FiberLauncher({1})(Run{code}, 1, 0);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Places within the arguments of a macro are one: code stands outside.
TEST(Fibers, ABarrierThatAThreadMissesIsFound) {
  const auto code = [](FiberBlock& block, int thread) {
    if (thread != 7) block.sync();
  };
  EXPECT_THAT(
      error_of(code),
      AllOf(HasSubstr(fmt::format("block 0: 1 threads have ended, {} threads wait at a barrier",
                                  kBlockThreads - 1)),
            HasSubstr("planted_test.cpp:")));
}

TEST(Fibers, BarriersAtTwoPlacesAreFound) {
  const auto code = [](FiberBlock& block, int thread) {
    if (thread < 32) {
      block.sync();
    } else {
      block.sync();
    }
  };
  EXPECT_THAT(error_of(code),
              AllOf(HasSubstr("32 threads wait at a barrier"),
                    HasSubstr(fmt::format("{} threads wait at a barrier", kBlockThreads - 32))));
}

TEST(Fibers, ReductionsAtTwoPlacesAreFound) {
  const auto larger_of = [](int a, int b) { return a < b ? b : a; };
  const auto code = [&](FiberBlock& block, int thread) {
    if (thread < kBlockThreads / 2) {
      block.reduce(thread, 0, larger_of);
    } else {
      block.reduce(thread, 0, larger_of);
    }
  };
  EXPECT_THAT(error_of(code),
              AllOf(HasSubstr(fmt::format("{} threads wait at a barrier (block_reduce.h:",
                                          kBlockThreads / 2)),
                    HasSubstr("from planted_test.cpp:")));
}

TEST(Fibers, AShuffleOfHalfAWarpIsFound) {
  EXPECT_THAT(error_of([](FiberBlock& block, int thread) {
                if (thread % kWarpThreads < 16) block.from_lane_below(thread, 8);
              }),
              AllOf(HasSubstr(fmt::format("{} threads have ended", kBlockThreads / 2)),
                    HasSubstr("threads wait at a shuffle")));
}

TEST(Fibers, RunAgainBehindAnError) {
  EXPECT_NE(error_of([](FiberBlock& block, int thread) {
              if (thread == 0) block.sync();
            }),
            "");
  EXPECT_EQ(passed_on(true, 1), right_numbers());
}

/// The reduction of all threads, several times: shared values are used again.
struct Reductions {
  double* out;

  template <typename Block>
  void operator()(Block& block) const {
    const auto add = [](double a, double b) { return a + b; };
    const auto own = block.each([](int thread) { return 1 / (1.0 + thread); });
    const double sum = block.reduce(own, 0.0, add);
    const auto next = block.each([&](int thread) { return sum / (2.0 + thread); });
    const double whole = block.reduce(next, 0.0, add);
    block.run([&](int thread) { out[thread] = whole; });
  }
};

TEST(Fibers, ReduceAsALoopOverThreadsDoes) {
  std::vector<double> expected(kBlockThreads);
  HostLauncher()(Reductions{expected.data()}, 1, 0);
  EXPECT_EQ(expected.front(), expected.back());
  for (const std::uint64_t seed : {1, 2, 3}) {
    std::vector<double> found(kBlockThreads);
    FiberLauncher({seed})(Reductions{found.data()}, 1, 0);
    EXPECT_EQ(found, expected);
  }
}

/// Two threads write the same place.
struct WriteTwice {
  double* out;

  template <typename Block>
  void operator()(Block& block) const {
    block.run([&](int thread) {
      if (thread < kWarpThreads) out[thread] = 0;
      if (thread % kWarpThreads == 0) out[thread / kWarpThreads] = thread;
    });
  }
};

TEST(FibersDeathTest, TwoWritesAreFound) {
  const auto written = [](std::uint64_t seed) {
    std::vector<double> out(kBlockThreads);
    FiberLauncher({seed})(WriteTwice{out.data()}, 1, 0);
    return out;
  };
  if (LOSSGRID_TSAN) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(written(1), testing::ExitedWithCode(66), "data race");
  } else {
    EXPECT_NE(written(1), written(2));
  }
}

/// Each barrier of a reduction but for the first of all, before which nobody reads.
TEST(FibersDeathTest, EveryBarrierOfAReductionIsNeeded) {
  std::vector<double> expected(kBlockThreads);
  HostLauncher()(Reductions{expected.data()}, 1, 0);
  for (int barrier = 1; barrier < 8; ++barrier) {
    const auto differs = [&] {
      for (std::uint64_t seed = 1; seed < 20; ++seed) {
        std::vector<double> found(kBlockThreads);
        FiberLauncher({seed, barrier})(Reductions{found.data()}, 1, 0);
        if (found != expected) return true;
      }
      return false;
    };
    if (LOSSGRID_TSAN) {
      GTEST_FLAG_SET(death_test_style, "threadsafe");
      EXPECT_EXIT(differs(), testing::ExitedWithCode(66), "data race") << barrier;
    } else {
      EXPECT_TRUE(differs()) << barrier;
    }
  }
}

}  // namespace
}  // namespace lossgrid
