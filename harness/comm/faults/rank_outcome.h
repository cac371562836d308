// SPDX-License-Identifier: Apache-2.0
// How the ranks of a run ended. Transports fill these in; the runner reads them. What a body throws
// becomes an outcome here, in the same way for all transports.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/comm/faults/rank_trace.h"
#include "harness/core/error.h"

namespace lossgrid {

struct RankOutcome {
  bool finished = false;  // false: the rank still runs (hangs), its thread was left behind
  bool ok = false;        // returned without an exception, in time, with nobody left waiting
  ErrorCode code = ErrorCode::internal;
  std::string message;      // empty when ok
  bool busy = false;        // in no collective when the deadline passed
  RankTrace trace = {};     // of a run that failed; under MPI known to rank 0 only
  std::string detail = {};  // Error::detail
  Cause cause = Cause::unknown;
};

struct RanksOutcome {
  std::vector<RankOutcome> ranks;
  bool all_ok() const;
  bool any_hung() const;
  /// Whether nothing more can run in this process: a rank hangs, or has lost its GPU.
  bool is_the_last() const;
  /// The rank whose failure came first, -1 when all is well; a rank that was only woken by the
  /// failure of another one (`aborted`) is never it, and one that failed in a collective gives way
  /// to one that failed by itself (cause_among). When ranks hang, the first that hangs. A rank
  /// that left while others waited for it, or that was busy when the deadline passed, has failed
  /// (rank_failed, timeout) though its body threw nothing.
  int first_failed_rank = -1;
};

/// What ended a run before its time.
struct WorldFailure {
  int culprit = -1;    // the rank that it began with, -1 when it is nobody's
  std::string reason;  // one line that names the rank
};

class FlightRecorder;

/// Calls `body`. Error has its code, std::bad_alloc is not_enough_memory, others are rank_failed;
/// RankLeft is a return. Messages are made one line. `finished` stays false.
RankOutcome outcome_of(const std::function<void()>& body);
/// The same of the rank whose `recorder` it is; says there how it ended.
RankOutcome outcome_of(FlightRecorder& recorder, const std::function<void()>& body);

/// The rank that the failure of a run began in, where that of `first` came first: `first`, unless
/// it was in a collective then, or had nothing left to do, and another rank failed nearer to the
/// cause.
int cause_among(const std::vector<RankOutcome>& ranks, int first);

/// Blames a rank for `message` unless it has an error of its own.
void blame(RankOutcome& outcome, ErrorCode code, const std::string& message);

}  // namespace lossgrid
