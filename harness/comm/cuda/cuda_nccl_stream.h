// SPDX-License-Identifier: Apache-2.0
// NcclStream of a GPU.
#pragma once

#include <memory>

#include "harness/comm/nccl/nccl_stream.h"

namespace lossgrid {

/// Makes the NcclStream of a device of backend cuda. Builds without CUDA have no such device.
std::unique_ptr<NcclStream> make_cuda_nccl_stream(Device& device);

}  // namespace lossgrid
