// SPDX-License-Identifier: Apache-2.0
// NcclGroup: one ncclComm_t. Its calls only start operations (communicators of recent versions do
// not block); `ready` returns true once they are done. Older versions wait in the calls themselves,
// where nothing can end the wait. Used by the thread of its rank.
#pragma once

#include <nccl.h>

#include "harness/comm/nccl/nccl_library.h"

namespace lossgrid {

class NcclGroup {
 public:
  explicit NcclGroup(const NcclLibrary& nccl);
  /// Closes the group, as its other members do; aborts it during stack unwinding.
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  /// Starts to connect the ranks that hold the same `id`.
  void connect(int ranks, const ncclUniqueId& id, int rank);
  /// Starts to split `parent` into groups of one `color`, from 0, in the order of `key`. Done once
  /// both are ready.
  void split_from(NcclGroup& parent, int color, int key);

  /// Returns true if all calls are done, or launched on their stream. Throws rank_failed with an
  /// asynchronous error of NCCL.
  bool ready() const;

  /// Returns the handle for calls of NCCL. Throws aborted after abort().
  ncclComm_t handle() const;

  /// Ends pending operations, kernels included, and the group.
  void abort() noexcept;

 private:
  void close() noexcept;

  const NcclLibrary& nccl_;
  ncclComm_t handle_ = nullptr;
  int exceptions_;  // in flight at construction
};

}  // namespace lossgrid
