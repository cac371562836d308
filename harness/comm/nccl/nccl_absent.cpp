// SPDX-License-Identifier: Apache-2.0
// Builds without nccl.h.
#include "harness/comm/nccl/nccl_transport.h"
#include "harness/core/error.h"

namespace lossgrid {

const std::optional<SkipReason>& no_nccl() {
  static const std::optional<SkipReason> reason =
      SkipReason{"this build has no NCCL (nccl.h of 2.18 or later was not found)"};
  return reason;
}

std::string nccl_version() {
  throw Error(ErrorCode::unsupported, no_nccl()->text);
}

bool nccl_is_emulated() {
  return false;
}

std::unique_ptr<Communicator> over_nccl(Communicator&, NcclStream&) {
  throw Error(ErrorCode::unsupported, no_nccl()->text);
}

}  // namespace lossgrid
