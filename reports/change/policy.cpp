// SPDX-License-Identifier: Apache-2.0
#include "reports/change/policy.h"

#include <fnmatch.h>

#include "harness/core/file.h"
#include "reports/file/json_fields.h"
#include "reports/file/schema.h"
#include "reports/schema_texts.h"

namespace lossgrid {
namespace {

bool fits(const std::string& pattern, const std::string& text) {
  return pattern.empty() || ::fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

/// Throws for an open bracket, which fnmatch takes for a plain character and nobody means.
void require_closed_brackets(const std::string& pattern, const std::string& place) {
  bool open = false;
  for (std::size_t k = 0; k < pattern.size(); ++k) {
    if (pattern[k] == '\\')
      ++k;
    else if (pattern[k] == '[')
      open = true;
    else if (pattern[k] == ']')
      open = false;
  }
  if (open) throw_bad_input("{}: the pattern '{}' has a '[' without ']'", place, pattern);
}

/// Returns the pattern under `key`; empty, which matches anything, where there is none.
std::string text_or_any(const ReportJson& json, const char* key) {
  return json.contains(key) ? field<std::string>(json, key) : std::string();
}

std::optional<double> number_or_none(const ReportJson& json, const char* key) {
  return json.contains(key) ? std::optional(field<double>(json, key)) : std::nullopt;
}

SubjectPattern subjects_from(const ReportJson& json, const std::string& place) {
  for (const char* key : {"case", "grid", "implementation", "phase"}) {
    require_closed_brackets(text_or_any(json, key), fmt::format("{}/{}", place, key));
  }
  return {.case_pattern = text_or_any(json, "case"),
          .grid = text_or_any(json, "grid"),
          .implementation = text_or_any(json, "implementation"),
          .phase = text_or_any(json, "phase")};
}

PolicyRule rule_from(const ReportJson& json, const std::string& place) {
  PolicyRule rule;
  rule.metric = field<std::string>(json, "metric");
  rule.subjects = subjects_from(json, place);
  rule.better = find_metric(rule.metric).better;
  for (const Direction direction : {Direction::lower, Direction::higher, Direction::equal}) {
    if (text_or_any(json, "direction") == name(direction)) rule.better = direction;
  }
  rule.tolerance_ratio = number_or_none(json, "tolerance_ratio");
  rule.limit = number_or_none(json, "limit");
  if (!rule.tolerance_ratio && !rule.limit) {
    throw_bad_input("{}: a rule needs a tolerance_ratio or a limit", place);
  }
  return rule;
}

Policy policy_from(const ReportJson& json) {
  const std::vector<std::string> problems = schema_problems("policy", json);
  if (!problems.empty()) throw_bad_input("{}", problems.front());
  Policy policy;
  for (const ReportJson& rule : json["rules"]) {
    policy.rules.push_back(rule_from(rule, fmt::format("/rules/{}", policy.rules.size())));
  }
  for (const ReportJson& issue : json.value("known_issues", ReportJson::array())) {
    const std::string place = fmt::format("/known_issues/{}", policy.known_issues.size());
    policy.known_issues.push_back({.metric = text_or_any(issue, "metric"),
                                   .subjects = subjects_from(issue, place),
                                   .until = field<std::string>(issue, "until"),
                                   .reason = field<std::string>(issue, "reason")});
  }
  return policy;
}

}  // namespace

bool SubjectPattern::matches(const Subject& subject) const {
  return (fits(case_pattern, subject.case_name) || fits(case_pattern, subject.case_text)) &&
         fits(grid, subject.grid) && fits(implementation, subject.implementation) &&
         fits(phase, subject.phase);
}

Policy read_policy(const std::string& path) {
  const std::string text = path == "exact" ? std::string(kExactPolicy) : read_text_file(path);
  const ReportJson json = ReportJson::parse(text, nullptr, false);
  try {
    if (json.is_discarded()) throw_bad_input("it is no JSON");
    return policy_from(json);
  } catch (const Error& error) {
    throw_bad_input("{}: {}", path, error.what());
  }
}

}  // namespace lossgrid
