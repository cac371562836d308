// SPDX-License-Identifier: Apache-2.0
// Builds without CUDA.
#include "harness/comm/cuda/cuda_nccl_stream.h"
#include "harness/core/error.h"

namespace lossgrid {

std::unique_ptr<NcclStream> make_cuda_nccl_stream(Device& /*device*/) {
  throw Error(ErrorCode::internal, "no CUDA in this build");
}

}  // namespace lossgrid
