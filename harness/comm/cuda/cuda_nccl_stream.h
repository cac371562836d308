// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "harness/comm/nccl/nccl_stream.h"

namespace lossgrid {

/// As make_nccl_stream, of a device of backend cuda. No build without CUDA has one.
std::unique_ptr<NcclStream> make_cuda_nccl_stream(Device& device);

}  // namespace lossgrid
