// SPDX-License-Identifier: Apache-2.0
// ThreadWorld: state shared by the ranks of one run on threads: the group in which each rank waits,
// the ranks that have left, and the failure of the run. One mutex of the world guards all of it, so
// that a failure is one event for all groups.
// ThreadGroup: the members of a communicator and their rendezvous. Internal to the thread
// transport.
//
// A rank that enters a call either completes it with all members of the group or throws. A call is
// complete at the arrival of its last member; from then on it cannot fail, since members read each
// other's buffers. Held by shared_ptr: threads that are left behind keep it alive.
//
// Runs have thousands of ranks, so no step of a rank looks at all of them: what a call, a split or
// the end of a rank needs is counted as it changes, or worked out by the last member that arrives.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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
  explicit ThreadWorld(int ranks)
      : ranks_(static_cast<std::size_t>(ranks)), running_(ranks_.size()) {}

  /// Fails the run and wakes all waiting ranks; these and all later calls throw Error(aborted).
  /// Later failures have no effect.
  void fail(int culprit, const std::string& reason) noexcept;

  /// Marks `rank` as gone. Fails the run if another rank waits for it.
  void leave(int rank);

  /// Fails the run as `limit` ("the deadline of 5 ms") has passed; waiting ranks then throw
  /// Error(timeout). Returns the ranks that were outside of collectives; none if the run had failed
  /// before.
  std::vector<int> expire(const std::string& limit);

  /// Returns the ranks that are in a collective or a transfer.
  std::vector<int> in_calls() const;

  std::optional<WorldFailure> failure() const;

  ThreadRankState state_of(int rank) const;

 private:
  friend class ThreadGroup;

  struct RankState {
    bool left = false;
    std::vector<std::weak_ptr<ThreadGroup>> groups;  // that it is a member of
    const ThreadGroup* waiting_in = nullptr;         // null outside of incomplete calls
    const ThreadCall* waiting_call = nullptr;        // valid while `waiting_in` is set
    std::string transfer;          // "all_reduce #5 of 'tp'" during transfer_external
    std::optional<Error> verdict;  // exception of that call; nullopt: Error(aborted)
  };

  void fail_locked(int culprit, const std::string& reason);
  void fail_deadlock_locked();
  void enter_wait_locked(int rank, const ThreadGroup& group, const ThreadCall& call);
  void end_wait_locked(int rank);
  bool all_wait_locked() const;
  std::string waiting_call_locked(std::size_t waiting_rank) const;

  mutable std::mutex mutex_;
  std::vector<RankState> ranks_;
  std::size_t running_;   // ranks that have not left and do not wait in an incomplete call
  std::size_t left_ = 0;  // ranks that have left
  std::optional<WorldFailure> failure_;
};

class ThreadGroup {
 public:
  /// Place of a rank in a group that was split off.
  struct SplitPlace {
    std::shared_ptr<ThreadGroup> group;
    int rank = 0;
  };

  /// Makes the group of all ranks of `world`.
  static std::shared_ptr<ThreadGroup> make_world_group(const std::shared_ptr<ThreadWorld>& world);

  int size() const { return static_cast<int>(world_ranks_.size()); }
  int world_rank(int rank) const { return world_ranks_[static_cast<std::size_t>(rank)]; }
  ThreadWorld& world() { return *world_; }

  /// Waits until all members have made the same call. Returns the number of the round, from 0. An
  /// all_reduce whose payload is staged has been reduced then.
  std::uint64_t rendezvous(int rank, const ThreadCall& call);

  /// Runs Communicator::transfer_external, after the rendezvous of `call`.
  void transfer_external(int rank, const ThreadCall& call, const std::function<bool()>& advance);

  /// Waits until all members have called it; does not fail. Ends a round in which `peer` was used.
  void leave_round();

  /// Returns the payloads of the members by rank: copies of those of up to kStagedBytes, valid
  /// until this rank's next rendezvous, else the buffers of the members, until leave_round.
  std::span<const std::byte* const> sources(std::uint64_t round) const {
    return sources_[round % 2];
  }

  /// Returns the result of a staged all_reduce; valid until this rank's next rendezvous.
  const std::byte* reduced(std::uint64_t round) const { return reduced_[round % 2].data(); }

  /// Returns the call of `rank` in the current round; valid from rendezvous to leave_round.
  const ThreadCall& peer(int rank) const { return calls_[static_cast<std::size_t>(rank)]; }

  /// Returns the place that `rank` got in the split that was made in `round`, whose payloads are a
  /// SplitChoice each. Each member calls it once.
  SplitPlace take_place(std::uint64_t round, int rank);

 private:
  struct Split {
    std::vector<SplitPlace> places;  // by rank of this group
    std::size_t pending = 0;         // members that have not taken theirs
  };

  ThreadGroup(std::shared_ptr<ThreadWorld> world, std::vector<int> world_ranks);

  /// Makes a group, `world_ranks` by rank of the group, and enters it for its members.
  static std::shared_ptr<ThreadGroup> make_locked(const std::shared_ptr<ThreadWorld>& world,
                                                  std::vector<int> world_ranks);

  std::string call_text_locked(const ThreadCall& call) const;  // "all_reduce #5 of 'tp'"
  std::string missing_ranks_locked() const;
  void stage_locked(std::size_t slot, const ThreadCall& call);
  void complete_round_locked();
  std::vector<SplitPlace> split_locked(std::uint64_t round) const;
  void require_members_locked(int me, const ThreadCall& call);
  void require_same_calls_locked();
  void wait_locked(std::unique_lock<std::mutex>& lock, int me, const ThreadCall& call);
  friend class ThreadWorld;

  const std::shared_ptr<ThreadWorld> world_;
  const std::vector<int> world_ranks_;
  // One for all members, woken by one call of the system: a call for each would search among the
  // waiting threads of all ranks.
  mutable std::condition_variable wake_;
  std::vector<ThreadCall> calls_;
  std::vector<bool> here_;  // arrived in the current round
  int arrived_ = 0;
  int left_ = 0;                   // members that have left the run
  std::uint64_t round_ = 0;        // completed rendezvous
  int leaving_ = 0;                // members that wait in leave_round
  std::uint64_t left_rounds_ = 0;  // rounds that all members have left
  // By parity of the round, where given by rank. Two sets are enough: a rank writes the set of
  // round n + 2 after all members have arrived in round n + 1, and a member arrives there after its
  // reads of round n.
  std::vector<std::vector<std::byte>> staged_[2];
  std::vector<const std::byte*> sources_[2];
  std::vector<std::byte> reduced_[2];
  std::map<std::uint64_t, Split> splits_;  // by round
};

/// Payload of a rank in a split.
struct SplitChoice {
  std::int32_t color = 0;
  std::int32_t key = 0;
};

/// Makes the communicator of rank `rank` of `group`.
std::unique_ptr<Communicator> make_thread_communicator(std::shared_ptr<ThreadGroup> group, int rank,
                                                       std::string name);

}  // namespace lossgrid
