// SPDX-License-Identifier: Apache-2.0
// MpiControl: messages between the processes of a run beside its collectives: a rank aborts, a rank
// is back, rank 0 has decided. Archives (archive.h) between pairs of processes, over the control
// communicator of the session; the tag separates runs. All calls require the lock of the runtime.
#pragma once

#include <list>
#include <map>
#include <optional>
#include <string>

#include "harness/comm/faults/rank_outcome.h"
#include "harness/comm/mpi/mpi_runtime.h"

namespace lossgrid {

/// Report of a process about its rank, whose body has returned or hangs.
struct RankStatus {
  RankOutcome outcome;
  bool gave_up = false;                          // true: MPI still holds one of its calls
  std::optional<WorldFailure> failure;           // known to the process
  std::map<std::uint64_t, std::uint64_t> steps;  // exchanges entered, by group
};

struct ControlMessage {
  enum class Kind { abort, status, verdict };
  Kind kind = Kind::abort;
  std::string reason;  // of an abort, with the rank
  RankStatus status;
  RanksOutcome verdict;
  bool lost = false;  // with a verdict: MPI cannot be finalized any more
  int from = 0;       // filled in on receipt
};

class MpiControl {
 public:
  MpiControl(MpiRuntime& runtime, std::uint64_t run);

  /// Sends `message` to all other processes of the session. Returns at once.
  void send_to_all(const ControlMessage& message);
  /// Returns the next message of this run, nullopt for none. Messages of one sender keep their
  /// order.
  std::optional<ControlMessage> receive();
  /// Returns true if MPI has completed all sends.
  bool all_sent();
  /// Leaks the sends that MPI has not completed.
  void give_up();

 private:
  struct Sending {
    std::string bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  MpiRuntime* runtime_;
  int tag_;
  std::list<Sending> sending_;  // nodes do not move
};

}  // namespace lossgrid
