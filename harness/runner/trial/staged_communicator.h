// SPDX-License-Identifier: Apache-2.0
// Collectives of a transport that reads memory of the host, for tensors of a GPU: payloads go
// through pinned memory, and a rank's kernels are done before it communicates.
#pragma once

#include <memory>

#include "harness/comm/communicator.h"
#include "harness/device/device.h"

namespace lossgrid {

/// Both outlive the result.
std::unique_ptr<Communicator> stage_payloads(Communicator& inner, Device& device);

}  // namespace lossgrid
