// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/thread/thread_world.h"

#include <fmt/format.h>

namespace lossgrid {

void ThreadWorld::fail(int culprit, const std::string& reason) noexcept {
  const std::lock_guard lock(mutex_);
  fail_locked(culprit, reason);
}

void ThreadWorld::leave(int rank) {
  const std::lock_guard lock(mutex_);
  RankState& leaving = ranks_[static_cast<std::size_t>(rank)];
  leaving.left = true;
  ++left_;
  --running_;
  if (failure_) return;
  std::map<int, std::string> failed;  // messages by rank that waits for it
  for (const std::weak_ptr<ThreadGroup>& known : leaving.groups) {
    const std::shared_ptr<ThreadGroup> group = known.lock();
    if (group == nullptr) continue;
    ++group->left_;
    if (group->arrived_ == 0) continue;
    for (const int member : group->world_ranks_) {
      if (ranks_[static_cast<std::size_t>(member)].waiting_in != group.get()) continue;
      failed[member] = fmt::format("rank {} left while rank {} waits in {}", rank, member,
                                   waiting_call_locked(static_cast<std::size_t>(member)));
    }
  }
  for (const auto& [member, message] : failed) {
    ranks_[static_cast<std::size_t>(member)].verdict.emplace(ErrorCode::rank_failed, message);
  }
  if (!failed.empty()) {
    fail_locked(rank, failed.begin()->second);
  } else if (all_wait_locked()) {
    fail_deadlock_locked();
  }
}

std::vector<int> ThreadWorld::expire(const std::string& limit) {
  const std::lock_guard lock(mutex_);
  std::vector<int> busy;
  if (failure_) return busy;
  int transferring = -1;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    RankState& state = ranks_[r];
    if (state.left) continue;
    if (!state.transfer.empty()) {
      const std::string message =
          fmt::format("{} passed while rank {} is in {}", limit, r, state.transfer);
      state.verdict.emplace(ErrorCode::timeout, message);
      if (transferring < 0) transferring = static_cast<int>(r);
      continue;
    }
    if (state.waiting_in == nullptr) {
      busy.push_back(static_cast<int>(r));
      continue;
    }
    state.verdict.emplace(
        ErrorCode::timeout,
        fmt::format("{} passed while rank {} waits in {} for {}", limit, r, waiting_call_locked(r),
                    state.waiting_in->missing_ranks_locked()));
  }
  if (!busy.empty()) {
    fail_locked(busy[0], fmt::format("{} passed with rank {} busy", limit, busy[0]));
  } else if (transferring >= 0) {  // no rank is late: report the first
    fail_locked(transferring, ranks_[static_cast<std::size_t>(transferring)].verdict->what());
  }
  return busy;
}

std::optional<WorldFailure> ThreadWorld::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::vector<int> ThreadWorld::in_calls() const {
  const std::lock_guard lock(mutex_);
  std::vector<int> ranks;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const RankState& state = ranks_[r];
    if (!state.left && (state.waiting_in != nullptr || !state.transfer.empty())) {
      ranks.push_back(static_cast<int>(r));
    }
  }
  return ranks;
}

ThreadRankState ThreadWorld::state_of(int rank) const {
  const std::lock_guard lock(mutex_);
  const RankState& state = ranks_[static_cast<std::size_t>(rank)];
  if (state.left) return ThreadRankState::left;
  return state.waiting_in != nullptr ? ThreadRankState::waiting : ThreadRankState::running;
}

void ThreadWorld::fail_locked(int culprit, const std::string& reason) {
  if (failure_) return;
  failure_ = WorldFailure{culprit, reason};
  for (const RankState& state : ranks_) {
    if (state.waiting_in != nullptr) state.waiting_in->wake_.notify_all();
  }
}

void ThreadWorld::enter_wait_locked(int rank, const ThreadGroup& group, const ThreadCall& call) {
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  state.waiting_call = &call;
  state.waiting_in = &group;
  --running_;
}

void ThreadWorld::end_wait_locked(int rank) {
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  if (state.waiting_in == nullptr) return;
  state.waiting_in = nullptr;
  ++running_;
}

bool ThreadWorld::all_wait_locked() const {
  return running_ == 0 && left_ < ranks_.size();
}

std::string ThreadWorld::waiting_call_locked(std::size_t waiting_rank) const {
  const RankState& state = ranks_[waiting_rank];
  return state.waiting_in->call_text_locked(*state.waiting_call);
}

void ThreadWorld::fail_deadlock_locked() {
  // Some rank waits in another group than the first one, as a group in which all ranks wait is
  // complete.
  int first = -1;
  int other = -1;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_[r].waiting_in == nullptr) continue;
    if (first < 0) first = static_cast<int>(r);
    const auto& first_group = ranks_[static_cast<std::size_t>(first)].waiting_in;
    if (other < 0 && ranks_[r].waiting_in != first_group) other = static_cast<int>(r);
  }
  if (other < 0) other = first;
  const std::string message =
      fmt::format("all ranks wait: rank {} in {}, rank {} in {}", first,
                  waiting_call_locked(static_cast<std::size_t>(first)), other,
                  waiting_call_locked(static_cast<std::size_t>(other)));
  for (RankState& state : ranks_) {
    if (state.waiting_in != nullptr) state.verdict.emplace(ErrorCode::rank_failed, message);
  }
  fail_locked(other, message);
}

}  // namespace lossgrid
