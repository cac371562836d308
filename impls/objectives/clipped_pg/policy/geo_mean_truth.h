// SPDX-License-Identifier: Apache-2.0
// Internal to the truth of `clipped_pg`: the logarithms of ratios in geo_mean.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/loss/tape.h"
#include "impls/objectives/clipped_pg/clipped_pg_options.h"

namespace lossgrid {

/// Returns the logarithms of a sequence's ratios as they are in the mean of geo_mean. Adds the
/// branches taken to `branches`.
std::vector<Var> geo_mean_logs(const ClippedPgOptions& options, const std::vector<Var>& logs,
                               const std::vector<double>& advantages,
                               std::map<std::string, std::int64_t>& branches);

}  // namespace lossgrid
