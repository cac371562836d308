// SPDX-License-Identifier: Apache-2.0
// over_nccl() with a given library, for tests with an emulation of NCCL.
#pragma once

#include <memory>

#include "harness/comm/nccl/nccl_library.h"
#include "harness/comm/nccl/nccl_stream.h"
#include "harness/comm/nccl/nccl_transport.h"

namespace lossgrid {

/// Does as over_nccl(inner, stream), with the functions of `nccl`, which outlive the result.
std::unique_ptr<Communicator> over_nccl(Communicator& inner, NcclStream& stream,
                                        const NcclLibrary& nccl);

}  // namespace lossgrid
