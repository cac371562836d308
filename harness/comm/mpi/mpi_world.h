// SPDX-License-Identifier: Apache-2.0
// What a process knows of one run: which ranks are back and how, whether the run has failed, and
// the exchange that its own rank waits in. The rank's thread and the one that waits for it share
// it; the lock of the runtime guards all of it. Held by shared_ptr: a thread that is left behind
// keeps it.
//
// An exchange that is given up stays in the hands of MPI, with its buffers. Groups are opened by a
// blocking call, which nobody may enter in vain: all members commit to it first.
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
  std::uint64_t id = 0;          // the same for all members, of no other group of the run
  std::vector<int> world_ranks;  // by rank of the group
};

/// A call that a rank is in.
struct MpiCall {
  const MpiGroup& group;
  std::string_view communicator;
  std::uint64_t number;  // from 1
  std::string_view operation;
  std::string text() const;  // "all_reduce #5 of 'tp'"
};

/// Memory that MPI reads and writes. What was in use by a call that was given up is leaked.
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
  /// Of `ranks` ranks, the first of the session; `comm` has them, and is null in other processes.
  MpiWorld(std::shared_ptr<MpiRuntime> runtime, MPI_Comm comm, int ranks);

  // For the rank's thread.

  using Start = std::function<int(MPI_Request*)>;
  /// Starts an exchange of `call` and waits for it. Throws aborted when the run has failed or fails
  /// meanwhile, timeout after the deadline, rank_failed when a member has left.
  void exchange(const MpiCall& call, const Start& start);
  /// Communicator::transfer_external, once all members have met in `call`.
  void transfer_external(const MpiCall& call, const std::function<bool()>& advance);
  /// Fails the run because of `culprit` and throws rank_failed.
  [[noreturn]] void fail(int culprit, const std::string& reason);
  /// Splits `group` off into those of the same `color`, in the order of `key`, both from 0. All
  /// members of `call.group` call it, and know that the others do.
  MPI_Comm split(const MpiCall& call, int color, int key);
  /// Wakes all ranks; any thread.
  void abort(const std::string& reason) noexcept;

  const MpiGroup& group() const { return group_; }
  std::size_t segment_bytes() const { return runtime_->segment_bytes; }
  MessageMemory& outgoing() { return staging_[0]; }
  MessageMemory& incoming() { return staging_[1]; }
  MessageMemory& outgoing_slot() { return staging_[2]; }
  MessageMemory& incoming_slots() { return staging_[3]; }

  // For the thread that waits for the rank's.

  /// The deadline has passed. Returns whether the rank was busy elsewhere; false when the run had
  /// failed before.
  bool expire(const std::string& limit);
  /// Tells all processes how the rank ended, or that it does not; its thread can call nothing more.
  void close(const RankOutcome& outcome);
  /// Takes what has come; on rank 0, decides when all ranks have answered. True when the verdict is
  /// there and nothing more is to come.
  bool settle();
  /// Decides with what is there: ranks without an answer hang, which `silence` says.
  void decide(const std::string& silence);
  const RanksOutcome& verdict() const { return *verdict_; }
  /// Gives the communicators back to MPI, or up for ever.
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
  std::vector<MPI_Comm> opened_;  // in the order that all their members opened them in
  MessageMemory staging_[4];

  std::optional<WorldFailure> failure_;
  std::optional<std::string> expired_;  // what calls throw after the deadline
  const MpiCall* waiting_in_ = nullptr;
  std::map<std::uint64_t, std::uint64_t> steps_;
  bool gave_up_ = false;
  bool closed_ = false;
  std::vector<std::optional<RankStatus>> statuses_;
  std::optional<RanksOutcome> verdict_;
  bool lost_ = false;  // part of the verdict
};

/// The communicator "world" of the rank of this process.
std::unique_ptr<Communicator> make_mpi_communicator(std::shared_ptr<MpiWorld> world);

}  // namespace lossgrid
