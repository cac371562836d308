// SPDX-License-Identifier: Apache-2.0
// `Policy`: the conditions under which a report passes, as a JSON file
// (reports/schema/policy-1.schema.json): rules, each a metric with a direction and a threshold for
// the subjects that its patterns match, and known issues, which excuse findings up to a day.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/change/metric.h"

namespace lossgrid {

/// Patterns of a shell, each of the whole text; an empty one matches everything.
struct SubjectPattern {
  std::string case_pattern = {};  // of the name or the text of the case
  std::string grid = {};
  std::string implementation = {};
  std::string phase = {};

  bool matches(const Subject& subject) const;
};

struct PolicyRule {
  std::string metric;
  SubjectPattern subjects = {};
  Direction better = Direction::lower;
  std::optional<double> tolerance_ratio = {};  // 0.1: HEAD may be 10 % worse than BASE
  std::optional<double> limit = {};            // of HEAD
};

struct KnownIssue {
  std::string metric = {};  // also "status", "coverage"; empty: all
  SubjectPattern subjects = {};
  std::string until;  // "2026-01-31", the last day, UTC
  std::string reason;
};

struct Policy {
  std::vector<PolicyRule> rules = {};
  std::vector<KnownIssue> known_issues = {};
};

/// Reads a policy from the file at `path`; "exact" is that of reports/policies/exact.json, built
/// in. Throws bad_input with one line that names the file, the place in it and the rule it breaks.
Policy read_policy(const std::string& path);

}  // namespace lossgrid
