// SPDX-License-Identifier: Apache-2.0
// The messages that processes of one run send each other beside its collectives: a rank aborts, a
// rank is back, rank 0 has decided. Texts in JSON, from process to process, over the control
// communicator of the session; those of different runs are kept apart by the tag. All calls are
// made with the lock of the runtime held.
#pragma once

#include <list>
#include <map>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "harness/comm/faults/rank_outcome.h"
#include "harness/comm/mpi/mpi_runtime.h"

namespace lossgrid {

/// What a process says of its rank when the body is back, or does not come back.
struct RankStatus {
  RankOutcome outcome;
  bool gave_up = false;                          // a call that MPI still holds
  std::optional<WorldFailure> failure;           // that it knows of
  std::map<std::uint64_t, std::uint64_t> steps;  // exchanges that it has entered, by group
};

struct ControlMessage {
  enum class Kind { abort, status, verdict };
  Kind kind = Kind::abort;
  std::string reason;  // of an abort, names the rank
  RankStatus status;
  RanksOutcome verdict;
  bool lost = false;  // with a verdict: MPI cannot be finalized any more
  int from = 0;       // filled in on receipt
};

class MpiControl {
 public:
  MpiControl(MpiRuntime& runtime, std::uint64_t run);

  /// To all other processes of the session. Returns at once.
  void send_to_all(const ControlMessage& message);
  /// The next message of this run, if there is one. Those of one sender come in their order.
  std::optional<ControlMessage> receive();
  /// Whether MPI has done with all that was sent.
  bool all_sent();
  /// Leaves to MPI for ever what it has not done with.
  void give_up();

 private:
  struct Sending {
    std::string text;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  MpiRuntime* runtime_;
  int tag_;
  std::list<Sending> sending_;  // nodes do not move
};

}  // namespace lossgrid
