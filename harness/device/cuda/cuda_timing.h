// SPDX-License-Identifier: Apache-2.0
// Timer, cache size and identity of a GPU, for timings.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "harness/device/device_timer.h"

namespace lossgrid {

/// Makes a timer by events on the stream of `device`, which is a GPU and outlives the timer. Before
/// the first event a kernel keeps the stream busy, so that launches queue up behind it as in a step
/// of training; the last event precedes the last wait of the host.
std::unique_ptr<DeviceTimer> make_cuda_timer(Device& device);

/// Records the end of the calling thread's timed work so far, if the thread is timing. To be called
/// before every wait of the host.
void record_timed_end(void* stream);
/// Makes the timer record the end again, because work was launched after the last wait.
void forget_timed_end();

/// Returns the bytes of the first GPU's second-level cache, which all SMs share; 0 without GPUs.
std::int64_t cuda_l2_bytes();

/// Returns the UUID of the calling rank's GPU in hexadecimal, unique over all machines.
std::string cuda_device_uuid();

}  // namespace lossgrid
