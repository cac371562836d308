// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/verdict/trial_verdict.h"

#include <algorithm>

#include <fmt/format.h>

#include "harness/core/text.h"
#include "reports/record/invariants.h"
#include "reports/text/table.h"

namespace lossgrid {
namespace {

TrialStatus status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::timeout:
      return TrialStatus::timeout;
    case ErrorCode::unsupported:
      return TrialStatus::skipped;
    case ErrorCode::not_enough_memory:
      return TrialStatus::out_of_memory;
    case ErrorCode::device_lost:
    case ErrorCode::process_died:
      return TrialStatus::crashed;
    default:
      return TrialStatus::error;
  }
}

/// Reason for which a trial is not passed, and the status that it alone leads to.
struct VerdictReason {
  TrialStatus status;
  std::string text;
};

bool is_stated(const std::string& reason, const std::vector<std::string>& stated) {
  return std::any_of(stated.begin(), stated.end(), [&](const std::string& part) {
    return reason.find(part) != std::string::npos;
  });
}

VerdictReason reason_of_failure(const TrialFacts& facts) {
  const RankFailure& failure = *facts.failure;
  const bool is_unstated_skip = failure.code == ErrorCode::unsupported && facts.stated_skips &&
                                !is_stated(failure.text, *facts.stated_skips);
  if (!is_unstated_skip) return {status_of(failure.code), failure.text};
  return {TrialStatus::failed,
          fmt::format("skipped: {} (its suite expects it to run)", failure.text)};
}

void add_failed_checks(const std::vector<CheckRecord>& checks, std::vector<VerdictReason>& out) {
  for (const CheckRecord& check : checks) {
    if (check.passed) continue;
    const std::string worst =
        check.worst ? fmt::format(": ratio {:.3g} at {}", check.ratio, format_worst(*check.worst))
                    : "";
    out.push_back({TrialStatus::failed, check.name + worst});
  }
}

void add_failed_invariants(const std::vector<InvariantRecord>& invariants, bool that_explain,
                           std::vector<VerdictReason>& out) {
  for (const InvariantRecord& invariant : invariants) {
    const bool explains = invariant.name == kScaleIdentity;
    if (invariant.status != "failed" || explains != that_explain) continue;
    out.push_back({TrialStatus::failed, invariant.name + ": " + invariant.detail});
  }
}

void add_broken_claims(const std::vector<DeterminismRecord>& determinism,
                       std::vector<VerdictReason>& out) {
  for (const DeterminismRecord& bits : determinism) {
    if (!bits.claimed || bits.verdict != "different_bits") continue;
    out.push_back(
        {TrialStatus::failed, fmt::format("determinism: {} gave different bits{}{}", bits.name,
                                          bits.detail.empty() ? "" : ", ", bits.detail)});
  }
}

/// Returns all reasons that apply, in the order of their rank.
std::vector<VerdictReason> reasons_of(const TrialFacts& facts) {
  std::vector<VerdictReason> reasons;
  if (facts.skipped) reasons.push_back({TrialStatus::skipped, facts.skipped->text});
  if (facts.failure) reasons.push_back(reason_of_failure(facts));
  if (!facts.compared && reasons.empty()) {
    reasons.push_back({TrialStatus::not_run, facts.not_reached});
  }
  add_failed_invariants(facts.invariants, true, reasons);
  add_failed_checks(facts.checks, reasons);
  add_failed_invariants(facts.invariants, false, reasons);
  add_broken_claims(facts.determinism, reasons);
  for (const std::string& cost : facts.cost_mismatches) {
    reasons.push_back({TrialStatus::failed, cost});
  }
  add_failed_checks(facts.expected, reasons);
  return reasons;
}

}  // namespace

TrialVerdict judge(const TrialFacts& facts) {
  const std::vector<VerdictReason> reasons = reasons_of(facts);
  if (reasons.empty()) return {TrialStatus::passed, ""};
  const TrialStatus status = reasons.front().status;
  if (status != TrialStatus::failed) return {status, reasons.front().text};
  std::vector<std::string> texts;
  for (const VerdictReason& reason : reasons) texts.push_back(reason.text);
  return {status, join(texts, "; ")};
}

void set_verdict(TrialRecord& record, const TrialFacts& facts) {
  const TrialVerdict verdict = judge(facts);
  record.status = verdict.status;
  record.reason = verdict.reason;
}

TimingStatus timing_status(TrialStatus status) {
  switch (status) {
    case TrialStatus::timeout:
      return TimingStatus::timeout;
    case TrialStatus::skipped:
      return TimingStatus::skipped;
    case TrialStatus::crashed:
      return TimingStatus::crashed;
    case TrialStatus::out_of_memory:
      return TimingStatus::out_of_memory;
    default:
      return TimingStatus::error;
  }
}

}  // namespace lossgrid
