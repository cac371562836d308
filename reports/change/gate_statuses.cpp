// SPDX-License-Identifier: Apache-2.0
#include "reports/change/gate_statuses.h"

#include <algorithm>
#include <map>

#include "reports/change/compare.h"
#include "reports/exports/export_parts.h"

namespace lossgrid {
namespace {

class Statuses {
 public:
  void add_trial(const TrialRecord& trial) {
    if (trial.status != TrialStatus::failed && !was_cut_short(trial.status)) return;
    add(subject_of(trial), "", name(trial.status), trial.reason, exit_code_of(trial));
  }

  void add_timing(const TimingRecord& timing) {
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

  void add_mutant(const MutantRecord& mutant) {
    const std::string problem = mutant_problem(mutant);
    if (problem.empty()) return;
    Subject subject;
    subject.implementation = mutant.name;
    add(subject, "mutant", problem, "", ExitCode::correctness);
  }

  void add_run(const RunRecord& run) {
    for (const MeterRecord& check : run.meter) {
      if (!check.passed) {
        add({}, "meter", check.name, check.detail, ExitCode::rank_crashed);
      }
    }
    if (run.status == "complete") return;
    const std::string where = run.begun_id.empty() ? "" : "in the middle of " + run.begun_id;
    add({}, "run", "ended before its end", where, ExitCode::rank_crashed);
  }

  void add_lost(const RunRecord& base, const RunRecord& head) {
    std::map<std::string, Subject> subjects;
    for (const TrialRecord& trial : base.trials) subjects[trial.id] = subject_of(trial);
    for (const TimingRecord& timing : base.timings) {
      for (const TimingRow& row : timing.rows) {
        subjects[row_id(timing, row)] = subject_of(timing, row);
      }
    }
    for (const Change& change : compare_reports(base, head, 0).changes) {
      if (change.kind != ChangeKind::coverage) continue;
      findings_.push_back({GateVerdict::failed, "coverage", subjects[change.subject], "",
                           change.base, change.head, "", "", ExitCode::correctness});
    }
  }

  std::vector<GateFinding> take() { return std::move(findings_); }

 private:
  void add(const Subject& subject, const std::string& place, std::string_view status,
           const std::string& reason, ExitCode code) {
    std::string head(status);
    if (!reason.empty()) head += ": " + reason;
    findings_.push_back({GateVerdict::failed, "status", subject, place, "-", head, "", "", code});
  }

  std::vector<GateFinding> findings_;
};

bool nothing_ran(const RunRecord& run) {
  const bool any_trial =
      std::any_of(run.trials.begin(), run.trials.end(), [](const TrialRecord& trial) {
        return has_counts(trial.status) || was_cut_short(trial.status);
      });
  return !any_trial && run.timings.empty() && run.mutants.empty();
}

}  // namespace

std::vector<GateFinding> status_findings(const RunRecord* base, const RunRecord& head) {
  if (nothing_ran(head)) throw_bad_input("HEAD has no trial that ran, no timing and no mutant");
  Statuses statuses;
  statuses.add_run(head);
  for (const TrialRecord& trial : head.trials) statuses.add_trial(trial);
  for (const TimingRecord& timing : head.timings) statuses.add_timing(timing);
  for (const MutantRecord& mutant : head.mutants) statuses.add_mutant(mutant);
  if (base != nullptr) statuses.add_lost(*base, head);
  return statuses.take();
}

}  // namespace lossgrid
