// SPDX-License-Identifier: Apache-2.0
#include "reports/change/gate.h"

#include <algorithm>

#include "reports/change/compare.h"
#include "reports/record/record_names.h"

namespace lossgrid {
namespace {

void require_that_something_ran(const RunRecord& run) {
  const bool any_trial =
      std::any_of(run.trials.begin(), run.trials.end(), [](const TrialRecord& trial) {
        return has_counts(trial.status) || was_cut_short(trial.status);
      });
  if (any_trial || !run.timings.empty() || !run.mutants.empty()) return;
  throw_bad_input("HEAD has no trial that ran, no timing and no mutant");
}

/// Returns findings that no rule has to name: everything in HEAD that is wrong, and trials and rows
/// that BASE has and HEAD has not.
std::vector<Finding> status_findings(const RunRecord* base, const RunRecord& head) {
  std::vector<Finding> findings;
  const auto add = [&](const Subject& subject, const std::string& place, std::string_view status,
                       const std::string& reason, ExitCode code) {
    findings.push_back({.metric = "status",
                        .subject = subject,
                        .place = place,
                        .base = "-",
                        .head = with_reason(status, reason),
                        .code = code});
  };
  for (const MeterRecord& check : head.meter) {
    if (!check.passed) add({}, "meter", check.name, check.detail, ExitCode::rank_crashed);
  }
  if (head.status != "complete") {
    add({}, "run", "ended before its end",
        head.begun_id.empty() ? "" : "in the middle of " + head.begun_id, ExitCode::rank_crashed);
  }
  for (const TrialRecord& trial : head.trials) {
    if (!is_bad(trial.status)) continue;
    add(subject_of(trial), "", name(trial.status), trial.reason, exit_code_of(trial));
  }
  for (const TimingRecord& timing : head.timings) {
    if (timing.rows.empty() && timing.status >= TimingStatus::above_ceiling) {
      add(subject_of(timing), timing.cache, name(timing.status), timing.reason,
          exit_code_of(timing.status));
    }
    for (const TimingRow& row : timing.rows) {
      if (row.status < TimingStatus::above_ceiling) continue;
      add(subject_of(timing, row), timing.cache, name(row.status), row.reason,
          exit_code_of(row.status));
    }
  }
  for (const MutantRecord& mutant : head.mutants) {
    const std::string problem = mutant_problem(mutant);
    if (problem.empty()) continue;
    add({.implementation = mutant.name}, "mutant", problem, "", ExitCode::correctness);
  }
  if (base == nullptr) return findings;
  for (const Finding& change : compare_reports(*base, head, 0).findings) {
    if (change.kind == ChangeKind::coverage) findings.push_back(change);
  }
  return findings;
}

/// Excuses the findings that `issue` matches. Returns a note when there is none or it has expired.
std::optional<std::string> excuse(const KnownIssue& issue, const std::string& name_of_issue,
                                  const std::string& today, std::vector<Finding>& findings) {
  if (issue.until < today) {
    return fmt::format("{} expired on {} and excuses nothing: {}", name_of_issue, issue.until,
                       issue.reason);
  }
  bool any = false;
  for (Finding& finding : findings) {
    if (!issue.metric.empty() && issue.metric != finding.metric) continue;
    if (!issue.subjects.matches(finding.subject)) continue;
    any = true;
    if (finding.verdict == Verdict::excused) continue;
    finding.verdict = Verdict::excused;
    finding.excuse = fmt::format("{} (until {})", issue.reason, issue.until);
  }
  if (any) return std::nullopt;
  return fmt::format("{} has nothing to excuse: {}", name_of_issue, issue.reason);
}

}  // namespace

GateResult judge(const RunRecord* base, const RunRecord& head, const Policy& policy,
                 const std::string& today) {
  require_that_something_ran(head);
  GateResult result;
  result.findings = status_findings(base, head);
  const Selection in_base = base == nullptr ? Selection() : everything_measured(*base);
  const Selection in_head = everything_measured(head);
  for (std::size_t k = 0; k < policy.rules.size(); ++k) {
    const PolicyRule& rule = policy.rules[k];
    const std::string name_of_rule = fmt::format("rule {} ({})", k, rule.metric);
    if (rule.tolerance_ratio && base == nullptr) {
      throw Error(ErrorCode::usage, name_of_rule + " has a tolerance_ratio, which needs BASE");
    }
    const std::int64_t matches =
        judge_rule(rule, &in_base, in_head, Listing::failures, result.findings);
    if (matches == 0) result.notes.push_back(name_of_rule + " matches nothing");
    result.judged += matches;
  }
  for (std::size_t k = 0; k < policy.known_issues.size(); ++k) {
    const auto note =
        excuse(policy.known_issues[k], fmt::format("known issue {}", k), today, result.findings);
    if (note) result.notes.push_back(*note);
  }
  std::stable_sort(result.findings.begin(), result.findings.end(),
                   [](const Finding& a, const Finding& b) { return a.verdict < b.verdict; });
  return result;
}

ExitCode exit_code_of(const GateResult& result, bool strict) {
  const ExitCode code = exit_code_of(result.findings, strict);
  return strict && !result.notes.empty() ? worst(code, ExitCode::inconclusive) : code;
}

}  // namespace lossgrid
