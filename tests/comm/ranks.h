// SPDX-License-Identifier: Apache-2.0
// run_ranks() and the like: a body on thread ranks, for a test. Bodies may use gtest assertions of
// the EXPECT kind.
#pragma once

#include <chrono>
#include <functional>
#include <initializer_list>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "harness/comm/communicator.h"
#include "harness/comm/thread/thread_communicator.h"

namespace lossgrid {

/// Deadline of runs that pass, which is never reached: it ends a test that would hang.
inline constexpr std::chrono::milliseconds kNoHurry{60000};

/// Limit within which a failure is seen on all ranks, also on a busy machine: a failure that nobody
/// sees ends at the deadline.
inline constexpr std::chrono::milliseconds kAtOnce = kNoHurry / 2;

/// Deadline of runs that reach it. The ranks that do not hang are in their collectives before.
inline constexpr std::chrono::milliseconds kDeadline{500};

/// Waits until the state of all `ranks` is `state`. To be called in the body of another rank.
inline void wait_until(ThreadRankState state, std::initializer_list<int> ranks) {
  for (const int rank : ranks) {
    while (thread_rank_state(rank) != state) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

/// Enters one collective of any kind.
inline void add_up(Communicator& comm, std::size_t count = 4) {
  std::vector<float> data(count, 1.0f);
  comm.all_reduce(std::span(data), ReduceOp::sum);
}

inline void expect_ranks_ok(int ranks, const std::function<void(Communicator&)>& body) {
  const RanksOutcome outcome = run_thread_ranks(ranks, body, kNoHurry);
  EXPECT_EQ(outcome.first_failed_rank, -1);
  for (std::size_t r = 0; r < outcome.ranks.size(); ++r) {
    EXPECT_TRUE(outcome.ranks[r].finished) << "rank " << r;
    EXPECT_TRUE(outcome.ranks[r].ok) << "rank " << r << ": " << outcome.ranks[r].message;
  }
}

/// Time since construction.
class Stopwatch {
 public:
  std::chrono::milliseconds elapsed() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                                 start_);
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace lossgrid
