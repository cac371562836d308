// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

#include "harness/comm/reduction.h"
#include "harness/comm/thread/backoff.h"
#include "harness/comm/thread/thread_world.h"

namespace lossgrid {

ThreadGroup::ThreadGroup(std::shared_ptr<ThreadWorld> world, std::vector<int> world_ranks)
    : world_(std::move(world)),
      world_ranks_(std::move(world_ranks)),
      calls_(world_ranks_.size()),
      here_(world_ranks_.size()) {
  for (auto& staged : staged_) staged.resize(world_ranks_.size());
  for (auto& sources : sources_) sources.resize(world_ranks_.size());
}

std::shared_ptr<ThreadGroup> ThreadGroup::make_locked(const std::shared_ptr<ThreadWorld>& world,
                                                      std::vector<int> world_ranks) {
  const std::shared_ptr<ThreadGroup> group(new ThreadGroup(world, std::move(world_ranks)));
  for (const int member : group->world_ranks_) {
    auto& groups = world->ranks_[static_cast<std::size_t>(member)].groups;
    std::erase_if(groups, [](const auto& known) { return known.expired(); });
    groups.push_back(group);
  }
  return group;
}

std::shared_ptr<ThreadGroup> ThreadGroup::make_world_group(
    const std::shared_ptr<ThreadWorld>& world) {
  const std::lock_guard lock(world->mutex_);
  std::vector<int> world_ranks(world->ranks_.size());
  std::iota(world_ranks.begin(), world_ranks.end(), 0);
  return make_locked(world, std::move(world_ranks));
}

void ThreadGroup::stage_locked(std::size_t slot, const ThreadCall& call) {
  const std::size_t set = round_ % 2;
  const bool is_staged = call.send_bytes <= kStagedBytes;
  sources_[set][slot] = call.send;
  if (!is_staged || call.send == nullptr || call.send_bytes == 0) return;
  std::vector<std::byte>& staged = staged_[set][slot];
  staged.resize(std::max(staged.size(), call.send_bytes));
  std::memcpy(staged.data(), call.send, call.send_bytes);
  sources_[set][slot] = staged.data();
  if (call.collective == Collective::all_reduce) {
    // Here, where a rank may still fail: the last one must complete the call.
    reduced_[set].resize(std::max(reduced_[set].size(), call.send_bytes));
  }
}

void ThreadGroup::complete_round_locked() {
  const ThreadCall& call = calls_[0];
  const bool is_staged = call.send_bytes > 0 && call.send_bytes <= kStagedBytes;
  if (is_staged && call.collective == Collective::all_reduce) {
    // By one rank for all: n ranks that each add up n payloads take n^2.
    reduce_in_order(sources(round_), 0, call.count, call.dtype, *call.op,
                    reduced_[round_ % 2].data());
  }
  arrived_ = 0;
  here_.assign(here_.size(), false);
  ++round_;
  for (const int member : world_ranks_) world_->end_wait_locked(member);
}

std::uint64_t ThreadGroup::rendezvous(int rank, const ThreadCall& call) {
  const auto slot = static_cast<std::size_t>(rank);
  const int me = world_ranks_[slot];
  std::unique_lock lock(world_->mutex_);
  if (world_->failure_) throw Error(ErrorCode::aborted, world_->failure_->reason);
  require_members_locked(me, call);

  const std::uint64_t round = round_;
  stage_locked(slot, call);
  calls_[slot] = call;
  here_[slot] = true;
  if (++arrived_ < size()) {
    wait_locked(lock, me, call);
    return round;
  }
  require_same_calls_locked();
  complete_round_locked();
  lock.unlock();
  wake_.notify_all();
  return round;
}

void ThreadGroup::leave_round() {
  std::unique_lock lock(world_->mutex_);
  const std::uint64_t round = left_rounds_;
  if (++leaving_ < size()) {
    // A failure does not end this wait: peers still read this rank's buffer, and always come here.
    wake_.wait(lock, [&] { return left_rounds_ != round; });
    return;
  }
  leaving_ = 0;
  ++left_rounds_;
  lock.unlock();
  wake_.notify_all();
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
    for (Backoff backoff = Backoff::for_kernels();; backoff.pause()) {
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

std::vector<ThreadGroup::SplitPlace> ThreadGroup::split_locked(std::uint64_t round) const {
  std::vector<std::tuple<std::int32_t, std::int32_t, int>> order;  // color, key, rank
  for (int r = 0; r < size(); ++r) {
    SplitChoice choice;
    std::memcpy(&choice, sources(round)[static_cast<std::size_t>(r)], sizeof(choice));
    order.emplace_back(choice.color, choice.key, r);
  }
  std::sort(order.begin(), order.end());
  std::vector<SplitPlace> places(order.size());
  for (auto begin = order.begin(); begin != order.end();) {
    const auto end = std::find_if(begin, order.end(), [&](const auto& member) {
      return std::get<0>(member) != std::get<0>(*begin);
    });
    std::vector<int> members;
    for (auto it = begin; it != end; ++it) members.push_back(world_rank(std::get<2>(*it)));
    const std::shared_ptr<ThreadGroup> group = make_locked(world_, std::move(members));
    for (auto it = begin; it != end; ++it) {
      places[static_cast<std::size_t>(std::get<2>(*it))] = {group, static_cast<int>(it - begin)};
    }
    begin = end;
  }
  return places;
}

ThreadGroup::SplitPlace ThreadGroup::take_place(std::uint64_t round, int rank) {
  const std::lock_guard lock(world_->mutex_);
  Split& split = splits_[round];
  if (split.places.empty()) {
    split.places = split_locked(round);
    split.pending = split.places.size();
  }
  SplitPlace place = std::move(split.places[static_cast<std::size_t>(rank)]);
  if (--split.pending == 0) splits_.erase(round);
  return place;
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
  if (left_ == 0) return;
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
  world_->enter_wait_locked(me, *this, call);
  if (world_->all_wait_locked()) world_->fail_deadlock_locked();
  wake_.wait(lock, [&] { return round_ != round || world_->failure_; });
  // Completion precedes failure: peers that completed the call read this rank's buffer.
  if (round_ != round) return;
  world_->end_wait_locked(me);
  if (state.verdict) throw Error(*state.verdict);
  throw Error(ErrorCode::aborted, world_->failure_->reason);
}

}  // namespace lossgrid
