// SPDX-License-Identifier: Apache-2.0
// Two reports, or one, judged by a policy. What is wrong, crashed, missing or cut off in HEAD fails
// whatever the rules say; rules bound numbers. Noisy numbers come with an interval of two standard
// errors: what reaches to both sides of a bound is inconclusive.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/core/error.h"
#include "harness/core/terminal.h"
#include "reports/change/policy.h"

namespace lossgrid {

enum class GateVerdict { failed, inconclusive, excused };

std::string_view name(GateVerdict verdict);

struct GateFinding {
  GateVerdict verdict = GateVerdict::failed;
  std::string metric;  // also "status", "coverage"
  Subject subject;
  std::string place;  // "rank 0", "cp: all_gather"; may be empty
  std::string base;   // "-" where BASE does not count
  std::string head;
  std::string bound;   // "at most 5 % more", "at least 1.2"; empty for a status
  std::string excuse;  // reason of the known issue
  ExitCode code = ExitCode::ok;
};

struct GateResult {
  std::vector<GateFinding> findings;  // failed ones first, then as in the policy
  // What is to be cleaned up in the policy: rules that match nothing, known issues that have
  // expired or excuse nothing.
  std::vector<std::string> notes;
  std::int64_t judged = 0;  // numbers that rules matched

  std::int64_t count(GateVerdict verdict) const;
};

/// `base` may be null when no rule has a tolerance_ratio; else throws usage. `today` is
/// "2026-01-31", UTC. Throws bad_input when nothing ran in HEAD, or nothing that BASE has.
GateResult judge(const RunRecord* base, const RunRecord& head, const Policy& policy,
                 const std::string& today);

/// The worst of what failed; with `strict` what is inconclusive, and notes, end with 13.
ExitCode exit_code_of(const GateResult& result, bool strict);

std::string format_gate(const GateResult& result, const TextStyle& style = {});
std::string gate_markdown(const GateResult& result);
nlohmann::ordered_json gate_to_json(const GateResult& result);

}  // namespace lossgrid
