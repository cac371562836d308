// SPDX-License-Identifier: Apache-2.0
// Internal to the truth of `clipped_pg`: the approximated proximal policy, which has no gradient
// and so stands beside the tape.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "harness/loss/enclosure.h"
#include "impls/objectives/clipped_pg/clipped_pg_options.h"

namespace lossgrid {

/// Returns the proximal policy's log-probability of a token that `version` has sampled with the
/// log-probability q. Adds the branch taken to `branches`.
Enclosure true_proximal(const ClippedPgOptions& options, const Enclosure& x, double q,
                        double version, std::map<std::string, std::int64_t>& branches);

}  // namespace lossgrid
