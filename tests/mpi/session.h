// SPDX-License-Identifier: Apache-2.0
// The MPI session of the test program, and runs in it. Every process runs the same tests in the
// same order; bodies use assertions of the EXPECT kind, which leave no rank alone in a collective.
#pragma once

#include <chrono>
#include <functional>

#include <gtest/gtest.h>

#include "harness/comm/mpi/mpi_ranks.h"

namespace lossgrid {

/// Set by main before the tests run.
MpiSession& session();

/// Deadline of runs that pass, which is never reached: it ends a test that would hang.
inline constexpr std::chrono::milliseconds kLongDeadline{30000};

/// Runs `body` on the first `ranks` processes, or on all of them.
inline void expect_mpi_ranks_ok(int ranks, const std::function<void(Communicator&)>& body) {
  const RanksOutcome outcome = run_mpi_ranks(session(), ranks, body, kLongDeadline);
  EXPECT_EQ(outcome.first_failed_rank, -1);
  EXPECT_EQ(outcome.ranks.size(), static_cast<std::size_t>(ranks));
  for (std::size_t r = 0; r < outcome.ranks.size(); ++r) {
    EXPECT_TRUE(outcome.ranks[r].ok) << "rank " << r << ": " << outcome.ranks[r].message;
  }
}
inline void expect_mpi_ranks_ok(const std::function<void(Communicator&)>& body) {
  expect_mpi_ranks_ok(session().size(), body);
}

}  // namespace lossgrid
