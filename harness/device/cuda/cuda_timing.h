// SPDX-License-Identifier: Apache-2.0
// What timings on a GPU need of CUDA.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "harness/device/device_timer.h"

namespace lossgrid {

/// By events on the stream of `device`, which is a GPU and outlives the timer.
std::unique_ptr<DeviceTimer> make_cuda_timer(Device& device);

/// Bytes of the second-level cache, which all SMs share: of the first GPU; 0 where there is none.
std::int64_t cuda_l2_bytes();

/// Tells the GPU of the calling rank from all others, on every machine: its UUID in hexadecimal.
std::string cuda_device_uuid();

}  // namespace lossgrid
