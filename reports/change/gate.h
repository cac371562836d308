// SPDX-License-Identifier: Apache-2.0
// `GateResult`: two reports, or one, judged by a policy. Trials and timings that are wrong,
// crashed, missing or cut off in HEAD fail whatever the rules are; rules bound numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/core/error.h"
#include "harness/core/process/terminal.h"
#include "reports/change/finding.h"
#include "reports/change/policy.h"

namespace lossgrid {

struct GateResult {
  std::vector<Finding> findings;  // failed ones first, then as in the policy
  // Parts of the policy to clean up: rules that match nothing, known issues that have expired or
  // excuse nothing.
  std::vector<std::string> notes;
  std::int64_t judged = 0;  // numbers that rules matched
};

/// `base` may be null when no rule has a tolerance_ratio; else throws usage. `today` is
/// "2026-01-31", UTC. Throws bad_input when nothing ran in HEAD, or nothing that BASE has.
GateResult judge(const RunRecord* base, const RunRecord& head, const Policy& policy,
                 const std::string& today);

/// Returns the worst code of what failed; with `strict` inconclusive findings and notes end
/// with 13.
ExitCode exit_code_of(const GateResult& result, bool strict);

std::string format_gate(const GateResult& result, const TextStyle& style = {});
std::string gate_markdown(const GateResult& result);
nlohmann::ordered_json gate_to_json(const GateResult& result);

}  // namespace lossgrid
