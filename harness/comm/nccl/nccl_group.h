// SPDX-License-Identifier: Apache-2.0
// One ncclComm_t. Its calls only begin something (communicators of recent versions do not block);
// `ready` says when that is carried out. Older versions wait in the calls themselves, where nothing
// can end the wait. Used by the thread of its rank.
#pragma once

#include <nccl.h>

#include "harness/comm/nccl/nccl_library.h"

namespace lossgrid {

class NcclGroup {
 public:
  explicit NcclGroup(const NcclLibrary& nccl);
  /// Closes it, in turn with its other members; while an exception passes it is aborted.
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  /// Begins to connect the ranks that hold the same `id`.
  void connect(int ranks, const ncclUniqueId& id, int rank);
  /// Begins to split `parent` into those of one `color`, from 0, in the order of `key`. It is done
  /// when both are ready.
  void split_from(NcclGroup& parent, int color, int key);

  /// Whether all calls are carried out, or launched on their stream. Throws rank_failed with what
  /// NCCL found wrong meanwhile.
  bool ready() const;

  /// To be given to NCCL; throws aborted when it is no more.
  ncclComm_t handle() const;

  /// Ends what is under way, kernels included, and the group.
  void abort() noexcept;

 private:
  void close() noexcept;

  const NcclLibrary& nccl_;
  ncclComm_t handle_ = nullptr;
  int exceptions_;  // passing when it was made
};

}  // namespace lossgrid
