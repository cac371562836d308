// SPDX-License-Identifier: Apache-2.0
// RankOutcome: the end of one rank's part in a run; RanksOutcome: of all ranks. Transports fill
// these in, the runner reads them. Exceptions of a body become outcomes here, in the same way for
// all transports.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/comm/faults/rank_trace.h"
#include "harness/core/error.h"

namespace lossgrid {

struct RankOutcome {
  bool finished = false;  // false: the rank hangs and its thread was left behind
  bool ok = false;        // returned without an exception, in time, with nobody left waiting
  ErrorCode code = ErrorCode::internal;
  std::string message = {};  // "" if ok
  bool busy = false;         // outside of collectives when the deadline passed
  RankTrace trace = {};      // if the run failed; under MPI on rank 0 only
  std::string detail = {};   // Error::detail
  Cause cause = Cause::unknown;
};

struct RanksOutcome {
  std::vector<RankOutcome> ranks;
  bool all_ok() const;
  bool any_hung() const;
  /// Returns true if nothing more can run in this process: a rank hangs or has lost its GPU.
  bool is_the_last() const;
  /// Rank whose failure came first, -1 for none. A rank that was only woken by the failure of
  /// another one (`aborted`) is never it, and one that failed in a collective gives way to one that
  /// failed by itself (cause_among). If ranks hang, the first of them. A rank that left while
  /// others waited for it, or that was busy when the deadline passed, has failed (rank_failed,
  /// timeout) though its body threw nothing.
  int first_failed_rank = -1;
};

/// Failure that ended a run early.
struct WorldFailure {
  int culprit = -1;    // rank that caused it, -1 for none
  std::string reason;  // one line that names the rank
};

class FlightRecorder;

/// Calls `body` and returns its outcome. An Error has its code, std::bad_alloc is
/// not_enough_memory, other exceptions are rank_failed; RankLeft is a return. Messages are made one
/// line. `finished` stays false.
RankOutcome outcome_of(const std::function<void()>& body);
/// Does the same for the rank of `recorder`, and records its end there.
RankOutcome outcome_of(FlightRecorder& recorder, const std::function<void()>& body);

/// Returns the rank that caused the failure of a run in which that of `first` was noticed first:
/// `first`, unless it was in a collective or had finished its own work, and another rank failed
/// nearer to the cause.
int cause_among(const std::vector<RankOutcome>& ranks, int first);

/// Sets a failure of a rank with `message`, unless the rank has an error of its own.
void blame(RankOutcome& outcome, ErrorCode code, const std::string& message);

}  // namespace lossgrid
