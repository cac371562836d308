// SPDX-License-Identifier: Apache-2.0
// NcclLibrary: the functions of NCCL that the transport needs, loaded at run time, so that one
// executable starts on machines with and without it.
#pragma once

#include <string>

#include <nccl.h>

namespace lossgrid {

struct NcclLibrary {
  int version = 0;        // 22809 is 2.28.9
  bool emulated = false;  // nccl_is_emulated()

  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRank) init_rank = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclCommGetAsyncError) async_error = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&ncclBroadcast) broadcast = nullptr;
  // Null before version 2.18.
  decltype(&ncclCommInitRankConfig) init_rank_config = nullptr;
  decltype(&ncclCommSplit) split = nullptr;
  decltype(&ncclCommFinalize) finalize = nullptr;
  decltype(&ncclGetLastError) last_error = nullptr;

  /// Returns true if communicators are made by split, and calls return before they are done.
  bool is_recent() const { return split != nullptr; }
};

/// Loads the library at `path`, or of that name. It stays loaded. Throws unsupported.
NcclLibrary load_nccl(const std::string& path);

/// Returns the library of this process. Throws unsupported with the reason of no_nccl().
const NcclLibrary& nccl_library();

/// Throws rank_failed with NCCL's own text unless `result` is success or ncclInProgress. `call` is
/// the name of the function.
void check_nccl(const NcclLibrary& nccl, ncclResult_t result, const char* call);

}  // namespace lossgrid
