// SPDX-License-Identifier: Apache-2.0
// `LaunchedWork`: a run that goes on over several launches of the executable: the plan, and the
// findings of the launches so far. Knows no processes; a launch is known by its report.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "harness/problem/case/suite.h"
#include "harness/runner/verdict/trial_verdict.h"
#include "reports/record/record.h"

namespace lossgrid {

class LaunchedWork {
 public:
  /// Plans all trials (where `verify`) and timings of the suites, none reached.
  LaunchedWork(std::vector<Suite> suites, bool verify);

  /// Takes over the trials and timings of `found` that are planned and were reached.
  void take(const RunRecord& found);
  /// The trial or timing in which a launch ended.
  struct Loss {
    std::string id;
    RankFailure failure;            // timeout or process_died
    std::string transport;          // of a trial
    std::vector<RankRecord> ranks;  // of a trial
  };
  /// Judges a loss that is planned and was not reached; ignores all others.
  void lose(const Loss& loss);

  /// Counts trials and timings that have an outcome.
  std::size_t reached() const;
  std::size_t planned() const { return trials_.size() + timings_.size(); }
  /// True if all trials and timings of `grid` ("tp2cp4") have an outcome.
  bool has_all_of(const std::string& grid) const;

  /// Fills `record` in the order of the plan, with the verdicts that need several trials. Trials
  /// that were not reached are not_run with `reason`; timings that were not reached are left out.
  void fill(RunRecord& record, const std::string& reason) const;

 private:
  struct PlannedTiming {
    std::string id;
    TimingRecord record;  // its identity alone before it was reached
    bool reached = false;
  };

  std::vector<Suite> suites_;
  std::vector<TrialRecord> trials_;
  std::vector<PlannedTiming> timings_;
  std::vector<MeterRecord> meter_;
};

}  // namespace lossgrid
