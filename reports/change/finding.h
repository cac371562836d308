// SPDX-License-Identifier: Apache-2.0
// `Finding`: one line of a comparison or of a gate's result, a number or status that got worse,
// may have, or got better. `judge_rule` is the one place where numbers of two reports are paired
// and judged, for both. Noisy numbers have an interval of two standard errors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/error.h"
#include "reports/change/metric.h"
#include "reports/change/policy.h"

namespace lossgrid {

/// In the order in which findings are listed.
enum class Verdict {
  failed,        // in a comparison "regressed"
  inconclusive,  // the interval of a noisy number reaches to both sides of the bound
  excused,       // by a known issue
  improved,      // comparisons only
  added,         // comparisons only: HEAD alone has it
};

std::string_view name(Verdict verdict);

struct Finding {
  Verdict verdict = Verdict::failed;
  ChangeKind kind = ChangeKind::verdict;
  std::string metric = {};  // also "status", "coverage"
  Subject subject = {};
  std::string id = {};     // of the trial, timing or timed row
  std::string place = {};  // "rank 0", "cp: all_gather"; may be empty
  std::string base = {};   // "-" where BASE does not count
  std::string head = {};
  std::string bound = {};   // "at most 5 % more", "at least 1.2"; empty for a status
  std::string excuse = {};  // reason of the known issue
  ExitCode code = ExitCode::ok;
  // HEAD / BASE of a number in both reports, and the interval of one that is not a counter.
  std::optional<double> ratio = {};
  std::optional<double> ratio_low = {};
  std::optional<double> ratio_high = {};
};

/// "failed: a reason", without the colon for an empty reason.
std::string with_reason(std::string_view status, const std::string& reason);

/// "rank 0 forward: peak bytes", "forward cp: all_gather calls", "time over per_sequence",
/// "status".
std::string quantity(const Finding& finding);

std::int64_t count(const std::vector<Finding>& findings, Verdict verdict);

/// Returns the worst code of what failed; with `strict` an inconclusive finding is `inconclusive`.
ExitCode exit_code_of(const std::vector<Finding>& findings, bool strict);

/// Findings that a judge lists.
enum class Listing {
  failures,  // worse than the bound, or perhaps
  changes,   // also better by more than the tolerance; exactly on the bound is inconclusive
};

/// Appends the findings of `rule` in the order of HEAD. `base` may be null for a rule without a
/// tolerance_ratio. Returns how many numbers the rule matched.
std::int64_t judge_rule(const PolicyRule& rule, const Selection* base, const Selection& head,
                        Listing listing, std::vector<Finding>& findings);

}  // namespace lossgrid
