// SPDX-License-Identifier: Apache-2.0
// ThreadWorld: state shared by the ranks of one run on threads: the group in which each rank waits,
// the ranks that have left, and the failure of the run. One mutex of the world guards all of it, so
// that a failure is one event for all groups; each rank waits on its own condition variable.
// ThreadGroup: the members of a communicator and their rendezvous. Internal to the thread
// transport.
//
// A rank that enters a call either completes it with all members of the group or throws. A call is
// complete at the arrival of its last member; from then on it cannot fail, since members read each
// other's buffers. Held by shared_ptr: threads that are left behind keep it alive.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/comm/call_signature.h"
#include "harness/comm/communicator.h"
#include "harness/comm/faults/rank_outcome.h"
#include "harness/comm/thread/thread_communicator.h"
#include "harness/core/error.h"

namespace lossgrid {

/// Payloads up to this size are copied at the rendezvous and read from the copy, which saves
/// leave_round(); larger ones are read in place and reductions are divided among the ranks.
inline constexpr std::size_t kStagedBytes = 4096;

/// Arguments of one rank in a collective.
struct ThreadCall : CallSignature {
  std::string_view communicator;
  const std::byte* send = nullptr;  // read by peers, null for nothing
  std::size_t send_bytes = 0;
  std::byte* receive = nullptr;  // written by peers in a shared reduction
};

class ThreadGroup;

class ThreadWorld {
 public:
  explicit ThreadWorld(int ranks) : ranks_(static_cast<std::size_t>(ranks)) {}

  /// Fails the run and wakes all waiting ranks; these and all later calls throw Error(aborted).
  /// Later failures have no effect.
  void fail(int culprit, const std::string& reason) noexcept;

  /// Marks `rank` as gone. Fails the run if another rank waits for it.
  void leave(int rank);

  /// Fails the run as `limit` ("the deadline of 5 ms") has passed; waiting ranks then throw
  /// Error(timeout). Returns the ranks that were outside of collectives; none if the run had failed
  /// before.
  std::vector<int> expire(const std::string& limit);

  std::optional<WorldFailure> failure() const;

  ThreadRankState state_of(int rank) const;

 private:
  friend class ThreadGroup;

  struct RankState {
    std::condition_variable wake;
    bool left = false;
    const ThreadGroup* waiting_in = nullptr;   // null outside of incomplete calls
    const ThreadCall* waiting_call = nullptr;  // valid while `waiting_in` is set
    std::string transfer;                      // "all_reduce #5 of 'tp'" during transfer_external
    std::optional<Error> verdict;              // exception of that call; nullopt: Error(aborted)
  };

  void fail_locked(int culprit, const std::string& reason);
  void fail_deadlock_locked();
  bool all_wait_locked() const;
  std::string waiting_call_locked(std::size_t waiting_rank) const;

  mutable std::mutex mutex_;
  std::vector<RankState> ranks_;
  std::optional<WorldFailure> failure_;
};

class ThreadGroup {
 public:
  /// Makes a group; `world_ranks` by rank of the group.
  ThreadGroup(std::shared_ptr<ThreadWorld> world, std::vector<int> world_ranks);

  int size() const { return static_cast<int>(world_ranks_.size()); }
  int world_rank(int rank) const { return world_ranks_[static_cast<std::size_t>(rank)]; }
  ThreadWorld& world() { return *world_; }

  /// Waits until all members have made the same call. Returns the number of the round, from 0.
  std::uint64_t rendezvous(int rank, const ThreadCall& call);

  /// Runs Communicator::transfer_external, after the rendezvous of `call`.
  void transfer_external(int rank, const ThreadCall& call, const std::function<bool()>& advance);

  /// Waits until all members have called it; does not fail. Ends a round in which `peer` was used.
  void leave_round(int rank);

  /// Returns the staged payload of `rank`, of up to kStagedBytes; valid until the next rendezvous.
  const std::byte* staged(std::uint64_t round, int rank) const {
    return staged_[round % 2][static_cast<std::size_t>(rank)].data();
  }

  /// Returns the call of `rank` in the current round; valid from rendezvous to leave_round.
  const ThreadCall& peer(int rank) const { return calls_[static_cast<std::size_t>(rank)]; }

  /// Returns the group of `members` (ranks of this group in their new order) that `round` split
  /// off: the same object for all of them. Each member calls it once.
  std::shared_ptr<ThreadGroup> subgroup(std::uint64_t round, const std::vector<int>& members);

 private:
  struct Subgroup {
    std::shared_ptr<ThreadGroup> group;
    std::size_t pending = 0;
  };

  std::string call_text_locked(const ThreadCall& call) const;  // "all_reduce #5 of 'tp'"
  std::string missing_ranks_locked() const;
  void require_members_locked(int me, const ThreadCall& call);
  void require_same_calls_locked();
  void wait_locked(std::unique_lock<std::mutex>& lock, int me, const ThreadCall& call);
  void wake_others(int rank);
  bool contains(int world_rank) const;
  friend class ThreadWorld;

  const std::shared_ptr<ThreadWorld> world_;
  const std::vector<int> world_ranks_;
  std::vector<ThreadCall> calls_;
  std::vector<bool> here_;  // arrived in the current round
  int arrived_ = 0;
  std::uint64_t round_ = 0;                        // completed rendezvous
  int leaving_ = 0;                                // members that wait in leave_round
  std::uint64_t left_rounds_ = 0;                  // rounds that all members have left
  std::vector<std::vector<std::byte>> staged_[2];  // by parity of the round, by rank
  std::map<std::pair<std::uint64_t, int>, Subgroup> subgroups_;
};

/// Makes the communicator of rank `rank` of `group`.
std::unique_ptr<Communicator> make_thread_communicator(std::shared_ptr<ThreadGroup> group, int rank,
                                                       std::string name);

}  // namespace lossgrid
