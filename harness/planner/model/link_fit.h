// SPDX-License-Identifier: Apache-2.0
// Latency and rates of a link between ranks that share a device, from measured collectives: the
// inverse of the direct algorithm in collective_time.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/measure/collective_times.h"
#include "harness/planner/model/machine.h"

namespace lossgrid {

/// Returns the transport `name` with one link. The latency comes from the smallest payloads; ranks
/// take turns if that better explains the latencies of more ranks than cores. Rates come from the
/// largest payloads of each operation and number of ranks, rates of caches from the second largest
/// payloads; both are medians over the numbers of ranks. Requires all-gathers and all-reduces.
Transport fit_transport(const std::string& name, const std::vector<CollectiveSample>& samples,
                        std::int64_t cores);

}  // namespace lossgrid
