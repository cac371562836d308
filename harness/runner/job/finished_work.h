// SPDX-License-Identifier: Apache-2.0
// `FinishedWork`: trials and timings that an earlier run of the same build has finished; a resumed
// run takes them over instead of running them again. Finished are those with a verdict on the
// implementation. Skipped ones run again, and so do those that ended by an error, a deadline or a
// crash unless they are to be kept. Work over NCCL and over other transports does not stand for
// each other.
#pragma once

#include <map>
#include <set>
#include <string>

#include "harness/runner/job/ranks.h"
#include "reports/record/record.h"

namespace lossgrid {

/// Treatment of trials and timings that ended by an error, a deadline or a crash.
enum class AfterFailure { run_again, keep };

class FinishedWork {
 public:
  /// Finds nothing finished.
  FinishedWork() = default;
  /// Takes the finished work of `earlier`, which only the process that reports has to have.
  /// Collective over the processes.
  FinishedWork(const RunRecord& earlier, AfterFailure after, const Ranks& ranks);

  bool contains(const std::string& id) const { return ids_.contains(id); }
  /// Returns the earlier record where this process reports; not_run elsewhere.
  TrialRecord trial(const std::string& id) const;
  TimingRecord timing(const std::string& id) const;

  const std::map<std::string, TrialRecord>& trials() const { return trials_; }
  const std::map<std::string, TimingRecord>& timings() const { return timings_; }

 private:
  std::set<std::string> ids_;  // the same on all processes
  std::map<std::string, TrialRecord> trials_;
  std::map<std::string, TimingRecord> timings_;
};

}  // namespace lossgrid
