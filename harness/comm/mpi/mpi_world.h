// SPDX-License-Identifier: Apache-2.0
// MpiWorld: the state of one run in one process: the outcomes of the ranks so far, the failure of
// the run, and the exchange in which its own rank waits. Shared by the rank's thread and the one
// that waits for it; the lock of the runtime guards all of it. Held by shared_ptr: a thread that is
// left behind keeps it alive.
//
// An exchange that is given up remains with MPI, with its buffers. Groups are opened by a blocking
// call, which a rank must not enter alone: all members commit to it first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/comm/communicator.h"
#include "harness/comm/mpi/mpi_control.h"
#include "harness/comm/mpi/mpi_runtime.h"

namespace lossgrid {

struct MpiGroup {
  MPI_Comm comm = MPI_COMM_NULL;
  std::uint64_t id = 0;          // the same for all members, unique in the run
  std::vector<int> world_ranks;  // by rank of the group
};

/// Call of a rank under way.
struct MpiCall {
  const MpiGroup& group;
  std::string_view communicator;
  std::uint64_t number;  // from 1
  std::string_view operation;
  std::string text() const;  // "all_reduce #5 of 'tp'"
};

/// Memory that MPI reads and writes. Memory in use by a call that was given up is leaked.
class MessageMemory {
 public:
  std::byte* at_least(std::size_t bytes);
  void leak();

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t bytes_ = 0;
};

class MpiWorld {
 public:
  /// Makes the world of the first `ranks` ranks of the session; `comm` connects them, and is null
  /// in other processes.
  MpiWorld(std::shared_ptr<MpiRuntime> runtime, MPI_Comm comm, int ranks);

  // Called by the rank's thread.

  using Start = std::function<int(MPI_Request*)>;
  /// Starts an exchange of `call` and waits for it. Throws aborted if the run has failed or fails
  /// meanwhile, timeout after the deadline, rank_failed if a member has left.
  void exchange(const MpiCall& call, const Start& start);
  /// Runs Communicator::transfer_external, after the rendezvous of `call`.
  void transfer_external(const MpiCall& call, const std::function<bool()>& advance);
  /// Fails the run because of `culprit` and throws rank_failed.
  [[noreturn]] void fail(int culprit, const std::string& reason);
  /// Splits `call.group` by `color`, in the order of `key`, both from 0. All members call it, and
  /// know that the others do.
  MPI_Comm split(const MpiCall& call, int color, int key);
  /// Fails the run and wakes all ranks. Any thread may call it.
  void abort(const std::string& reason) noexcept;

  const MpiGroup& group() const { return group_; }
  std::size_t segment_bytes() const { return runtime_->segment_bytes; }
  MessageMemory& outgoing() { return staging_[0]; }
  MessageMemory& incoming() { return staging_[1]; }
  MessageMemory& outgoing_slot() { return staging_[2]; }
  MessageMemory& incoming_slots() { return staging_[3]; }

  // Called by the thread that waits for the rank's.

  /// Fails the rank as the deadline has passed. Returns true if it was outside of collectives;
  /// false also if the run had failed before.
  bool expire(const std::string& limit);
  /// Sends the outcome of the rank, or that it hangs, to all processes; its thread can call nothing
  /// more.
  void close(const RankOutcome& outcome);
  /// Receives messages; on rank 0, decides once all ranks have answered. Returns true if the
  /// verdict is there and no more messages are expected.
  bool settle();
  /// Decides without further answers: ranks that gave none hang, with the text `silence`.
  void decide(const std::string& silence);
  const RanksOutcome& verdict() const { return *verdict_; }
  /// Frees the communicators, or leaks them if MPI still uses them.
  void release();

 private:
  void receive_locked();
  void note_failure_locked(const WorldFailure& failure);
  void require_open_locked();
  void require_running_locked(const MpiCall& call, std::uint64_t step);
  void require_entered_locked(const MpiCall& call, std::uint64_t step);
  void wait(const MpiCall& call, std::uint64_t step, MPI_Request& request, bool committed);
  void decide_locked(const std::string& silence);

  const std::shared_ptr<MpiRuntime> runtime_;
  MpiControl control_;
  MpiGroup group_;
  const int rank_;
  std::vector<MPI_Comm> opened_;  // in the same order on all members
  MessageMemory staging_[4];

  std::optional<WorldFailure> failure_;
  std::optional<std::string> expired_;  // message of calls after the deadline
  const MpiCall* waiting_in_ = nullptr;
  std::map<std::uint64_t, std::uint64_t> steps_;
  bool gave_up_ = false;
  bool closed_ = false;
  std::vector<std::optional<RankStatus>> statuses_;
  std::optional<RanksOutcome> verdict_;
  bool lost_ = false;  // part of the verdict
};

/// Makes the communicator "world" of the rank of this process.
std::unique_ptr<Communicator> make_mpi_communicator(std::shared_ptr<MpiWorld> world);

}  // namespace lossgrid
