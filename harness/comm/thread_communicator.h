// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process. Waiting is blocking (no spinning), so that eight ranks on two
// cores are fast. A rank that throws, or that leaves while others wait for it, fails all of them;
// so do calls that do not match and waits for each other in different groups. Only the thread that
// runs the body of a rank may call its communicators, except for `abort`.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "harness/comm/communicator.h"
#include "harness/core/error.h"

namespace lossgrid {

struct RankOutcome {
  bool finished = false;  // false: the rank still runs (hangs), its thread was left behind
  bool ok = false;        // returned without an exception, in time, with nobody left waiting
  ErrorCode code = ErrorCode::internal;
  std::string message;  // empty when ok
};

struct RanksOutcome {
  std::vector<RankOutcome> ranks;
  bool all_ok() const;
  bool any_hung() const;
  /// The rank whose failure came first, -1 when all is well; a rank that was only woken by the
  /// failure of another one (`aborted`) is never it. When ranks hang, the first that hangs. A rank
  /// that left while others waited for it, or that was busy when the deadline passed, has failed
  /// (rank_failed, timeout) though its body threw nothing.
  int first_failed_rank = -1;
};

/// Runs `body(world)` on `ranks` threads and waits for them. When `deadline` passes, the run is
/// aborted, which wakes all that wait in a collective (timeout); ranks that are not back within
/// `grace` after that are reported as hung (not finished, timeout) and their threads are left
/// behind: the caller must then report and end the process with std::_Exit, and `body` must own
/// what it uses (it is copied and kept alive). What a body throws becomes the rank's outcome: Error
/// with its code, std::bad_alloc as not_enough_memory, others as rank_failed; RankLeaves is a
/// return. `body` runs on every rank with a world communicator named "world" of size `ranks`.
RanksOutcome run_thread_ranks(int ranks, std::function<void(Communicator& world)> body,
                              std::chrono::milliseconds deadline,
                              std::chrono::milliseconds grace = std::chrono::milliseconds(1000));

}  // namespace lossgrid
