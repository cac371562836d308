// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/nccl/nccl_library.h"

#include <cstdlib>

#include "harness/comm/nccl/nccl_transport.h"
#include "harness/core/error.h"
#include "harness/core/process/shared_library.h"

namespace lossgrid {
namespace {

constexpr int kRecent = NCCL_VERSION(2, 18, 0);

struct Found {
  NcclLibrary library;
  std::optional<SkipReason> reason;  // nullopt: the library is valid
};

const Found& find_library() {
  static const Found found = [] {
    const char* named = std::getenv(kNcclLibraryVariable);
    Found result;
    try {
      result.library = load_nccl(named == nullptr ? "libnccl.so.2" : named);
    } catch (const Error& error) {
      result.reason = SkipReason{error.what()};
    }
    return result;
  }();
  return found;
}

}  // namespace

NcclLibrary load_nccl(const std::string& path) {
  const SharedLibrary functions(path);
  NcclLibrary nccl;
  decltype(&ncclGetVersion) get_version = nullptr;
  functions.find("ncclGetVersion", get_version);
  functions.find("ncclGetUniqueId", nccl.get_unique_id);
  functions.find("ncclCommInitRank", nccl.init_rank);
  functions.find("ncclCommDestroy", nccl.destroy);
  functions.find("ncclCommAbort", nccl.abort);
  functions.find("ncclCommGetAsyncError", nccl.async_error);
  functions.find("ncclGetErrorString", nccl.error_string);
  functions.find("ncclAllReduce", nccl.all_reduce);
  functions.find("ncclAllGather", nccl.all_gather);
  functions.find("ncclReduceScatter", nccl.reduce_scatter);
  functions.find("ncclBroadcast", nccl.broadcast);
  nccl.emulated = functions.has(kNcclEmulationMark);
  check_nccl(nccl, get_version(&nccl.version), "ncclGetVersion");
  if (nccl.version < kRecent) return nccl;
  functions.find("ncclCommInitRankConfig", nccl.init_rank_config);
  functions.find("ncclCommSplit", nccl.split);
  functions.find("ncclCommFinalize", nccl.finalize);
  functions.find("ncclGetLastError", nccl.last_error);
  return nccl;
}

const NcclLibrary& nccl_library() {
  const Found& found = find_library();
  if (found.reason) throw Error(ErrorCode::unsupported, found.reason->text);
  return found.library;
}

const std::optional<SkipReason>& no_nccl() {
  return find_library().reason;
}

std::string nccl_version() {
  const int version = nccl_library().version;
  // Two digits for the minor number since 2.9.
  const int unit = version < 10000 ? 1000 : 10000;
  return fmt::format("{}.{}.{}", version / unit, version % unit / 100, version % 100);
}

bool nccl_is_emulated() {
  return !no_nccl() && nccl_library().emulated;
}

void check_nccl(const NcclLibrary& nccl, ncclResult_t result, const char* call) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  std::string text = fmt::format("{}: {}", call, nccl.error_string(result));
  const char* last = nccl.last_error == nullptr ? "" : nccl.last_error(nullptr);
  if (*last != '\0') text += fmt::format(" ({})", last);
  throw Error(ErrorCode::rank_failed, text);
}

}  // namespace lossgrid
