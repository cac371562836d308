// SPDX-License-Identifier: Apache-2.0
// Latency and rates of a link between ranks that share a device, from measured collectives: the
// inverse of the ring in collective_time.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/measure/collective_times.h"
#include "harness/runner/model/machine.h"

namespace lossgrid {

/// Returns the link. The latency is that of the smallest payload, the rates are those of the
/// largest: of all-gathers, and of all-reduces for messages that are added up; medians over the
/// numbers of ranks. Requires both operations, of more than one rank.
LinkLevel fit_link(const std::string& name, const std::vector<CollectiveSample>& samples,
                   std::int64_t cores);

}  // namespace lossgrid
