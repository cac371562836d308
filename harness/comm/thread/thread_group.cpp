// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "harness/comm/thread/backoff.h"
#include "harness/comm/thread/thread_world.h"

namespace lossgrid {

ThreadGroup::ThreadGroup(std::shared_ptr<ThreadWorld> world, std::vector<int> world_ranks)
    : world_(std::move(world)),
      world_ranks_(std::move(world_ranks)),
      calls_(world_ranks_.size()),
      here_(world_ranks_.size()) {
  for (auto& staged : staged_) staged.resize(world_ranks_.size());
}

std::uint64_t ThreadGroup::rendezvous(int rank, const ThreadCall& call) {
  const auto slot = static_cast<std::size_t>(rank);
  const int me = world_ranks_[slot];
  std::unique_lock lock(world_->mutex_);
  if (world_->failure_) throw Error(ErrorCode::aborted, world_->failure_->reason);
  require_members_locked(me, call);

  const std::uint64_t round = round_;
  if (call.send != nullptr && call.send_bytes > 0 && call.send_bytes <= kStagedBytes) {
    // Two sets of buffers are enough: a rank writes the set of round n + 2 after all members have
    // arrived in round n + 1, and a member arrives there after its reads of round n.
    std::vector<std::byte>& staged = staged_[round % 2][slot];
    staged.resize(std::max(staged.size(), call.send_bytes));
    std::memcpy(staged.data(), call.send, call.send_bytes);
  }
  calls_[slot] = call;
  here_[slot] = true;
  if (++arrived_ < size()) {
    wait_locked(lock, me, call);
    return round;
  }
  require_same_calls_locked();
  arrived_ = 0;
  here_.assign(here_.size(), false);
  ++round_;
  for (const int member : world_ranks_) {
    world_->ranks_[static_cast<std::size_t>(member)].waiting_in = nullptr;
  }
  lock.unlock();
  wake_others(rank);
  return round;
}

void ThreadGroup::leave_round(int rank) {
  std::unique_lock lock(world_->mutex_);
  const std::uint64_t round = left_rounds_;
  if (++leaving_ < size()) {
    // A failure does not end this wait: peers still read this rank's buffer, and always come here.
    world_->ranks_[static_cast<std::size_t>(world_rank(rank))].wake.wait(
        lock, [&] { return left_rounds_ != round; });
    return;
  }
  leaving_ = 0;
  ++left_rounds_;
  lock.unlock();
  wake_others(rank);
}

void ThreadGroup::transfer_external(int rank, const ThreadCall& call,
                                    const std::function<bool()>& advance) {
  ThreadWorld::RankState& state = world_->ranks_[static_cast<std::size_t>(world_rank(rank))];
  const auto set_transfer = [&](std::string text) {
    const std::lock_guard lock(world_->mutex_);
    state.transfer = std::move(text);
  };
  set_transfer(fmt::format("{} #{} of '{}'", describe(call), round_, call.communicator));
  try {
    for (Backoff backoff = Backoff::brisk();; backoff.pause()) {
      {
        const std::lock_guard lock(world_->mutex_);
        if (state.verdict) throw Error(*state.verdict);
        if (world_->failure_) throw Error(ErrorCode::aborted, world_->failure_->reason);
      }
      if (advance()) break;
    }
  } catch (...) {
    set_transfer("");
    throw;
  }
  set_transfer("");
}

std::shared_ptr<ThreadGroup> ThreadGroup::subgroup(std::uint64_t round,
                                                   const std::vector<int>& members) {
  const std::lock_guard lock(world_->mutex_);
  const std::pair key(round, members.front());
  Subgroup& entry = subgroups_[key];
  if (entry.group == nullptr) {
    std::vector<int> world_ranks;
    for (const int member : members) world_ranks.push_back(world_rank(member));
    entry.group = std::make_shared<ThreadGroup>(world_, std::move(world_ranks));
    entry.pending = members.size();
  }
  std::shared_ptr<ThreadGroup> group = entry.group;
  if (--entry.pending == 0) subgroups_.erase(key);
  return group;
}

std::string ThreadGroup::call_text_locked(const ThreadCall& call) const {
  return fmt::format("{} #{} of '{}'", operation(call), round_ + 1, call.communicator);
}

std::string ThreadGroup::missing_ranks_locked() const {
  std::vector<int> missing;
  for (std::size_t r = 0; r < here_.size(); ++r) {
    if (!here_[r]) missing.push_back(world_ranks_[r]);
  }
  return fmt::format("rank{} {}", missing.size() == 1 ? "" : "s", fmt::join(missing, ", "));
}

void ThreadGroup::require_members_locked(int me, const ThreadCall& call) {
  for (const int member : world_ranks_) {
    if (!world_->ranks_[static_cast<std::size_t>(member)].left) continue;
    const std::string message =
        fmt::format("rank {} left while rank {} waits in {}", member, me, call_text_locked(call));
    world_->fail_locked(member, message);
    throw Error(ErrorCode::rank_failed, message);
  }
}

void ThreadGroup::require_same_calls_locked() {
  const CallSignature& first = calls_[0];
  const auto other = std::find_if(calls_.begin() + 1, calls_.end(),
                                  [&](const CallSignature& call) { return call != first; });
  if (other == calls_.end()) return;
  const int culprit = world_rank(static_cast<int>(other - calls_.begin()));
  const std::string message = describe_mismatch(round_ + 1, calls_[0].communicator, world_ranks_[0],
                                                first, culprit, *other);
  for (const int member : world_ranks_) {
    world_->ranks_[static_cast<std::size_t>(member)].verdict.emplace(ErrorCode::rank_failed,
                                                                     message);
  }
  world_->fail_locked(culprit, message);
  throw Error(ErrorCode::rank_failed, message);
}

void ThreadGroup::wait_locked(std::unique_lock<std::mutex>& lock, int me, const ThreadCall& call) {
  ThreadWorld::RankState& state = world_->ranks_[static_cast<std::size_t>(me)];
  const std::uint64_t round = round_;
  state.waiting_call = &call;
  state.waiting_in = this;
  if (world_->all_wait_locked()) world_->fail_deadlock_locked();
  state.wake.wait(lock, [&] { return round_ != round || world_->failure_; });
  // Completion precedes failure: peers that completed the call read this rank's buffer.
  if (round_ != round) return;
  state.waiting_in = nullptr;
  if (state.verdict) throw Error(*state.verdict);
  throw Error(ErrorCode::aborted, world_->failure_->reason);
}

void ThreadGroup::wake_others(int rank) {
  for (const int member : world_ranks_) {
    if (member != world_rank(rank)) {
      world_->ranks_[static_cast<std::size_t>(member)].wake.notify_one();
    }
  }
}

bool ThreadGroup::contains(int world_rank) const {
  return std::find(world_ranks_.begin(), world_ranks_.end(), world_rank) != world_ranks_.end();
}

}  // namespace lossgrid
