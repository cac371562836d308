// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/mpi/mpi_world.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "harness/core/error.h"

namespace lossgrid {
namespace {

constexpr std::size_t kLongestReason = 1000;  // bytes: MPI sends such messages at once

}  // namespace

std::string MpiCall::text() const {
  return fmt::format("{} #{} of '{}'", operation, number, communicator);
}

std::byte* MessageMemory::at_least(std::size_t bytes) {
  if (bytes > bytes_) {
    memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    bytes_ = bytes;
  }
  return memory_.get();
}

void MessageMemory::leak() {
  static_cast<void>(memory_.release());
  bytes_ = 0;
}

MpiWorld::MpiWorld(std::shared_ptr<MpiRuntime> runtime, MPI_Comm comm, int ranks)
    : runtime_(std::move(runtime)),
      control_(*runtime_, runtime_->runs),
      group_{comm, 1, {}},
      rank_(runtime_->rank),
      statuses_(static_cast<std::size_t>(ranks)) {
  group_.world_ranks.resize(statuses_.size());
  std::iota(group_.world_ranks.begin(), group_.world_ranks.end(), 0);
  if (comm != MPI_COMM_NULL) opened_.push_back(comm);
}

void MpiWorld::exchange(const MpiCall& call, const Start& start) {
  MPI_Request request = MPI_REQUEST_NULL;
  std::uint64_t step = 0;
  {
    const std::lock_guard lock(runtime_->mutex);
    receive_locked();
    step = steps_[call.group.id] + 1;
    require_running_locked(call, step);
    steps_[call.group.id] = step;
    waiting_in_ = &call;
    check_mpi(start(&request), call.operation);
  }
  wait(call, step, request, false);
}

MPI_Comm MpiWorld::split(const MpiCall& call, int color, int key) {
  // A rank that enters this barrier gives it up only for a member that never will; so either all
  // come out of it or none does, and no rank waits in MPI_Comm_split for one that was woken before.
  MPI_Request request = MPI_REQUEST_NULL;
  std::uint64_t step = 0;
  {
    const std::lock_guard lock(runtime_->mutex);
    receive_locked();
    step = steps_[call.group.id] + 1;
    require_running_locked(call, step);
    steps_[call.group.id] = step;
    waiting_in_ = &call;
    check_mpi(MPI_Ibarrier(call.group.comm, &request), call.operation);
  }
  wait(call, step, request, true);
  const std::lock_guard lock(runtime_->mutex);
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(call.group.comm, color, key, &part), "MPI_Comm_split");
  opened_.push_back(part);
  return part;
}

void MpiWorld::wait(const MpiCall& call, std::uint64_t step, MPI_Request& request, bool committed) {
  for (Backoff backoff = Backoff::brisk();; backoff.pause()) {
    const std::lock_guard lock(runtime_->mutex);
    try {
      int done = 0;
      check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), call.operation);
      // Completion precedes failure: the result is there.
      if (done != 0) {
        waiting_in_ = nullptr;
        return;
      }
      receive_locked();
      if (committed) {
        require_entered_locked(call, step);
      } else {
        require_running_locked(call, step);
      }
    } catch (...) {
      waiting_in_ = nullptr;
      gave_up_ = true;
      for (MessageMemory& staging : staging_) staging.leak();
      throw;
    }
  }
}

void MpiWorld::transfer_external(const MpiCall& call, const std::function<bool()>& advance) {
  const auto set_waiting = [this](const MpiCall* waiting) {
    const std::lock_guard lock(runtime_->mutex);
    waiting_in_ = waiting;
  };
  set_waiting(&call);
  try {
    for (Backoff backoff = Backoff::for_kernels();; backoff.pause()) {
      {
        const std::lock_guard lock(runtime_->mutex);
        receive_locked();
        require_open_locked();
      }
      if (advance()) break;
    }
  } catch (...) {
    set_waiting(nullptr);
    throw;
  }
  set_waiting(nullptr);
}

void MpiWorld::require_open_locked() {
  if (expired_) throw Error(ErrorCode::timeout, *expired_);
  if (failure_) throw Error(ErrorCode::aborted, failure_->reason);
  if (closed_) throw Error(ErrorCode::aborted, fmt::format("the run of rank {} is over", rank_));
}

void MpiWorld::require_running_locked(const MpiCall& call, std::uint64_t step) {
  require_open_locked();
  require_entered_locked(call, step);
}

void MpiWorld::require_entered_locked(const MpiCall& call, std::uint64_t step) {
  for (const int member : call.group.world_ranks) {
    const auto& status = statuses_[static_cast<std::size_t>(member)];
    if (!status) continue;
    const auto entered = status->steps.find(call.group.id);
    if (entered != status->steps.end() && entered->second >= step) continue;
    if (expired_) throw Error(ErrorCode::timeout, *expired_);
    if (failure_) throw Error(ErrorCode::aborted, failure_->reason);
    // The deadline has passed there, and passes here at once.
    if (!status->outcome.ok) continue;
    failure_ = {member,
                fmt::format("rank {} left while rank {} waits in {}", member, rank_, call.text())};
    throw Error(ErrorCode::rank_failed, failure_->reason);
  }
}

void MpiWorld::fail(int culprit, const std::string& reason) {
  const std::lock_guard lock(runtime_->mutex);
  note_failure_locked({culprit, reason});
  throw Error(ErrorCode::rank_failed, reason);
}

void MpiWorld::abort(const std::string& reason) noexcept {
  try {
    const std::lock_guard lock(runtime_->mutex);
    if (failure_ || closed_) return;
    ControlMessage message;
    message.reason = fmt::format("rank {} aborted the run: {}", rank_, reason);
    message.reason.resize(std::min(message.reason.size(), kLongestReason));
    failure_ = {rank_, message.reason};
    control_.send_to_all(message);
  } catch (const std::exception&) {
    // The run has failed here, and the others receive that at the end of this rank.
  }
}

void MpiWorld::note_failure_locked(const WorldFailure& failure) {
  if (!failure_) failure_ = failure;
}

void MpiWorld::receive_locked() {
  while (std::optional<ControlMessage> message = control_.receive()) {
    switch (message->kind) {
      case ControlMessage::Kind::abort:
        note_failure_locked({message->from, message->reason});
        break;
      case ControlMessage::Kind::status:
        if (message->status.failure) note_failure_locked(*message->status.failure);
        statuses_[static_cast<std::size_t>(message->from)] = std::move(message->status);
        break;
      case ControlMessage::Kind::verdict:
        verdict_ = std::move(message->verdict);
        lost_ = message->lost;
        break;
    }
  }
}

bool MpiWorld::expire(const std::string& limit) {
  const std::lock_guard lock(runtime_->mutex);
  receive_locked();
  if (failure_) return false;
  if (waiting_in_ != nullptr) {
    expired_ =
        fmt::format("{} passed while rank {} waits in {}", limit, rank_, waiting_in_->text());
    return false;
  }
  expired_ = fmt::format("{} passed with rank {} busy", limit, rank_);
  return true;
}

void MpiWorld::close(const RankOutcome& outcome) {
  const std::lock_guard lock(runtime_->mutex);
  receive_locked();
  closed_ = true;
  // A rank that was woken, or that was too late, is not the cause.
  if (!outcome.ok && outcome.code != ErrorCode::aborted && !expired_) {
    note_failure_locked({rank_, fmt::format("rank {} failed: {}", rank_, outcome.message)});
  }
  ControlMessage message;
  message.kind = ControlMessage::Kind::status;
  message.status = {outcome, gave_up_, failure_, steps_};
  control_.send_to_all(message);
  statuses_[static_cast<std::size_t>(rank_)] = std::move(message.status);
}

bool MpiWorld::settle() {
  const std::lock_guard lock(runtime_->mutex);
  receive_locked();
  const bool sent = control_.all_sent();
  const auto has_answered = [](const auto& status) { return status.has_value(); };
  const bool all_here = std::all_of(statuses_.begin(), statuses_.end(), has_answered);
  if (runtime_->rank == 0 && all_here && !verdict_) decide_locked("");
  if (!verdict_ || !sent) return false;
  if (all_here) return true;
  // An answer that rank 0 has received arrives here too, in a moment.
  for (std::size_t r = 0; r < statuses_.size(); ++r) {
    if (!statuses_[r] && verdict_->ranks[r].finished) return false;
  }
  return true;
}

void MpiWorld::decide(const std::string& silence) {
  const std::lock_guard lock(runtime_->mutex);
  receive_locked();
  if (!verdict_) decide_locked(silence);
}

void MpiWorld::decide_locked(const std::string& silence) {
  ControlMessage message;
  message.kind = ControlMessage::Kind::verdict;
  RanksOutcome& out = message.verdict;
  int late = -1;
  int failed = -1;
  int hung = -1;
  for (std::size_t r = 0; r < statuses_.size(); ++r) {
    const int rank = static_cast<int>(r);
    const auto& status = statuses_[r];
    out.ranks.push_back(
        status ? status->outcome
               : RankOutcome{.code = ErrorCode::timeout,
                             .message = fmt::format("rank {} hangs: {}", rank, silence)});
    const RankOutcome& outcome = out.ranks.back();
    if (hung < 0 && !outcome.finished) hung = rank;
    if (late < 0 && status && outcome.busy) late = rank;
    if (failed < 0 && !outcome.ok && outcome.code != ErrorCode::aborted) failed = rank;
    message.lost = message.lost || !outcome.finished || (status && status->gave_up);
  }
  if (failure_ && failure_->culprit >= 0) {
    blame(out.ranks[static_cast<std::size_t>(failure_->culprit)], ErrorCode::rank_failed,
          failure_->reason);
    out.first_failed_rank = cause_among(out.ranks, failure_->culprit);
  } else {
    out.first_failed_rank = cause_among(out.ranks, late >= 0 ? late : failed);
  }
  if (hung >= 0) out.first_failed_rank = hung;
  if (runtime_->rank == 0) control_.send_to_all(message);
  verdict_ = std::move(out);
  lost_ = message.lost;
}

void MpiWorld::release() {
  const std::lock_guard lock(runtime_->mutex);
  if (!control_.all_sent()) {
    control_.give_up();
    lost_ = true;
  }
  runtime_->lost = runtime_->lost || lost_;
  if (lost_) return;
  for (MPI_Comm& comm : opened_) check_mpi(MPI_Comm_free(&comm), "MPI_Comm_free");
}

}  // namespace lossgrid
