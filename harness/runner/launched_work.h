// SPDX-License-Identifier: Apache-2.0
// A run that goes on over several launches of the executable: what is planned, and what the
// launches have found so far. Knows no processes; a launch is what it left in its report.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "harness/problem/case/suite.h"
#include "reports/record/record.h"

namespace lossgrid {

class LaunchedWork {
 public:
  /// All trials (where `verify`) and timings of the suites, none reached.
  LaunchedWork(std::vector<Suite> suites, bool verify);

  /// Takes over the trials and timings of `found` that are planned and were reached.
  void take(const RunRecord& found);
  /// The trial or timing `id`, in which a launch ended: how, and where its ranks were (of a trial;
  /// a timing is a `timeout` or else an `error`). Nothing where it is not planned.
  struct Loss {
    std::string id;
    TrialStatus status = TrialStatus::crashed;
    std::string reason;
    std::string transport;
    std::vector<RankRecord> ranks;
  };
  void lose(const Loss& loss);

  /// Trials and timings that have an outcome.
  std::size_t reached() const;
  std::size_t planned() const { return trials_.size() + timings_.size(); }
  /// Whether `grid` ("tp2cp4") has none left without.
  bool has_all_of(const std::string& grid) const;

  /// In the order of the plan, with the verdicts that need several trials. Trials that were not
  /// reached are there, not_run with `why_not_run`; timings that were not reached are not.
  void fill(RunRecord& record, const std::string& why_not_run) const;

 private:
  struct PlannedTiming {
    std::string id;
    TimingRecord record;  // before it was reached, what names it
    bool reached = false;
  };

  std::vector<Suite> suites_;
  std::vector<TrialRecord> trials_;
  std::vector<PlannedTiming> timings_;
  std::vector<MeterRecord> meter_;
};

}  // namespace lossgrid
