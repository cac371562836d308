// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process. Waiting is blocking (no spinning), so that eight ranks on two
// cores are fast. A rank that throws, or that leaves while others wait for it, fails all of them;
// so do calls that do not match and waits for each other in different groups. Only the thread that
// runs the body of a rank may call its communicators, except for `abort`.
#pragma once

#include <chrono>
#include <functional>

#include "harness/comm/communicator.h"
#include "harness/comm/faults/rank_outcome.h"

namespace lossgrid {

/// Runs `body(world)` on `ranks` threads and waits for them. `world` is a communicator "world" of
/// all ranks. Exceptions of a body become the rank's outcome (outcome_of). At the `deadline` the
/// run is aborted, which wakes all that wait in a collective (timeout). Ranks that have not
/// returned within `grace` after that, or within half a minute if they waited in a collective, are
/// reported as hung (not finished, timeout) and their threads are left behind: the caller must then
/// report and end the process with std::_Exit, and `body` must own all that it uses (it is copied
/// and kept alive).
RanksOutcome run_thread_ranks(int ranks, std::function<void(Communicator& world)> body,
                              std::chrono::milliseconds deadline,
                              std::chrono::milliseconds grace = std::chrono::milliseconds(1000));

enum class ThreadRankState {
  running,
  waiting,  // in a collective that has not all of its members yet
  left,     // back from its body, by an exception or not
};

/// Returns the state of a rank of the run that this thread is in, so that tests order ranks by
/// state instead of by time. To be called in the body of a rank.
ThreadRankState thread_rank_state(int rank);

}  // namespace lossgrid
