// SPDX-License-Identifier: Apache-2.0
// `Explainer`: the causes of failed trials that another trial of the same implementation confirms,
// on a case of other sizes, or that another truth of the same results shows. Its trials are part of
// nothing but explanations.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "harness/runner/trial/trial.h"

namespace lossgrid {

/// A trial of a case.
struct CaseTrial {
  const CaseSpec& spec;
  const std::string& implementation;
  const Grid& grid;
  Backend backend = Backend::cpu;
};

class Explainer {
 public:
  /// `deadline`: of a trial; those of an explanation have no more than kDeadline.
  Explainer(std::chrono::milliseconds deadline, const Ranks& ranks)
      : deadline_(std::min<std::chrono::milliseconds>(deadline, kDeadline)), ranks_(ranks) {}

  /// Writes the explanation of a trial that failed by its numbers, if it did. Every process of a
  /// job calls it with its own outcome. Sets trial.must_end if a rank hangs meanwhile.
  void explain(const CaseTrial& failed, TrialOutcome& trial);

 private:
  struct Sized;

  static constexpr std::chrono::seconds kDeadline{20};

  /// Runs a trial on a case of its own, whose results are kept; nullopt where nothing ran.
  std::optional<Sized> run(const CaseTrial& failed, const CaseSpec& spec, const Grid& grid,
                           TrialOutcome& trial) const;
  /// Runs the trial on other sizes, where it fails.
  std::optional<Sized> run_second(const CaseTrial& failed, int number, TrialOutcome& trial) const;

  std::chrono::milliseconds deadline_;
  const Ranks& ranks_;
  std::map<std::string, std::chrono::nanoseconds> spent_;  // by implementation
  std::chrono::nanoseconds spent_by_all_{};
  // By kind of failure, facts about the second size; nullopt: it did not fail there.
  std::map<std::string, std::optional<FailureFacts>> seconds_;
};

}  // namespace lossgrid
