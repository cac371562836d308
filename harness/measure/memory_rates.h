// SPDX-License-Identifier: Apache-2.0
// Rates of memory, or of a cache, at one size: the passes of memory_kernels.h with the threads of
// the calling rank.
#pragma once

#include <cstdint>
#include <map>

#include "harness/device/device.h"
#include "harness/measure/memory_kernels.h"

namespace lossgrid {

/// Returns the bytes per second that every kernel reads and writes, over arrays of `bytes`. The
/// rate is that of the fastest variant at the 0.2-quantile of its pass times, because other work of
/// the machine only adds time.
std::map<MemoryKernel, double> memory_rates(Device& device, std::int64_t bytes);

}  // namespace lossgrid
