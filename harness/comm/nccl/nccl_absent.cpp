// SPDX-License-Identifier: Apache-2.0
// Builds without nccl.h.
#include "harness/comm/nccl/nccl_transport.h"
#include "harness/core/error.h"

namespace lossgrid {

const std::string& why_no_nccl() {
  static const std::string why = "this build has no NCCL (nccl.h of 2.18 or later was not found)";
  return why;
}

std::string nccl_version() {
  throw Error(ErrorCode::unsupported, why_no_nccl());
}

bool nccl_is_emulated() {
  return false;
}

std::unique_ptr<Communicator> over_nccl(Communicator&, NcclStream&) {
  throw Error(ErrorCode::unsupported, why_no_nccl());
}

}  // namespace lossgrid
