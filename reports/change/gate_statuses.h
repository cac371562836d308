// SPDX-License-Identifier: Apache-2.0
// What no rule of a policy has to name: everything in HEAD that is wrong, and what BASE has and
// HEAD has not. Internal to the gate.
#pragma once

#include <vector>

#include "reports/change/gate.h"

namespace lossgrid {

/// `base` may be null. Throws bad_input when nothing ran in HEAD, or nothing that BASE has.
std::vector<GateFinding> status_findings(const RunRecord* base, const RunRecord& head);

}  // namespace lossgrid
