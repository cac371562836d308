// SPDX-License-Identifier: Apache-2.0
// Rates of memory, or of a cache, at one size: the passes of memory_kernels.h with the threads of
// the calling rank.
#pragma once

#include <cstdint>
#include <map>

#include "harness/device/device.h"
#include "harness/measure/memory_kernels.h"

namespace lossgrid {

/// Returns the bytes a second of every kernel over arrays of `bytes`: those read, and written where
/// it writes. The fastest variant counts, by the 0.2-quantile of its passes: other work of the
/// machine only slows them down.
std::map<MemoryKernel, double> memory_rates(Device& device, std::int64_t bytes);

}  // namespace lossgrid
