// SPDX-License-Identifier: Apache-2.0
// Decorator for tensors of a GPU over a transport that reads memory of the host: payloads go
// through pinned memory, and a rank's kernels are done before it communicates.
#pragma once

#include <memory>

#include "harness/comm/communicator.h"
#include "harness/device/device.h"

namespace lossgrid {

/// Stages the payloads of `inner`; both arguments outlive the result.
std::unique_ptr<Communicator> stage_payloads(Communicator& inner, Device& device);

}  // namespace lossgrid
