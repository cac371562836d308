// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/nccl/nccl_group.h"

#include <chrono>
#include <exception>
#include <utility>

#include "harness/comm/thread/backoff.h"
#include "harness/core/error.h"

namespace lossgrid {
namespace {

/// Limit of the wait for the other members to close the group. All calls are over by then.
constexpr std::chrono::seconds kPatience{5};

}  // namespace

NcclGroup::NcclGroup(const NcclLibrary& nccl)
    : nccl_(nccl), exceptions_(std::uncaught_exceptions()) {}

NcclGroup::~NcclGroup() {
  if (std::uncaught_exceptions() > exceptions_) {
    abort();
  } else {
    close();
  }
}

void NcclGroup::connect(int ranks, const ncclUniqueId& id, int rank) {
  if (!nccl_.is_recent()) {
    check_nccl(nccl_, nccl_.init_rank(&handle_, ranks, id, rank), "ncclCommInitRank");
    return;
  }
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  check_nccl(nccl_, nccl_.init_rank_config(&handle_, ranks, id, rank, &config),
             "ncclCommInitRankConfig");
}

void NcclGroup::split_from(NcclGroup& parent, int color, int key) {
  check_nccl(nccl_, nccl_.split(parent.handle(), color, key, &handle_, nullptr), "ncclCommSplit");
}

bool NcclGroup::ready() const {
  ncclResult_t state = ncclSuccess;
  check_nccl(nccl_, nccl_.async_error(handle(), &state), "ncclCommGetAsyncError");
  check_nccl(nccl_, state, "an asynchronous error of NCCL");
  return state == ncclSuccess;
}

ncclComm_t NcclGroup::handle() const {
  if (handle_ == nullptr) throw Error(ErrorCode::aborted, "its communicator of NCCL was aborted");
  return handle_;
}

void NcclGroup::abort() noexcept {
  if (handle_ == nullptr) return;
  nccl_.abort(handle_);
  handle_ = nullptr;  // last: pending operations use it until here
}

void NcclGroup::close() noexcept {
  if (handle_ == nullptr) return;
  ncclResult_t state = ncclSuccess;
  if (nccl_.is_recent()) {
    state = nccl_.finalize(handle_);
    const auto end = std::chrono::steady_clock::now() + kPatience;
    for (Backoff backoff = Backoff::brisk();
         state == ncclInProgress && std::chrono::steady_clock::now() < end; backoff.pause()) {
      if (nccl_.async_error(handle_, &state) != ncclSuccess) break;
    }
  }
  if (state != ncclSuccess) return abort();
  nccl_.destroy(std::exchange(handle_, nullptr));
}

}  // namespace lossgrid
