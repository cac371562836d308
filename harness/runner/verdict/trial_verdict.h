// SPDX-License-Identifier: Apache-2.0
// Verdict on a trial: its status and the reason of it. judge() alone decides both. All other code
// states facts: the trial itself (trial/trial.cpp, rank_merge.h), the comparison with other trials
// (bit_comparison.h), a launch that died (launched_work.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/core/skip_reason.h"
#include "harness/runner/job/admission.h"
#include "reports/record/record.h"

namespace lossgrid {

/// Facts about one trial. As constructed it was not reached.
struct TrialFacts {
  std::optional<SkipReason> skipped = {};   // it does not fit or is not taken
  std::optional<RankFailure> failure = {};  // a rank threw, hung, died or got no memory
  bool compared = false;                    // all ranks returned, and their outputs were compared
  std::string not_reached = {};             // reason of a trial that nothing started
  // Parts of the reasons for which its suite lets the implementation refuse it, which is a failure
  // with the code `unsupported`; nullopt: any.
  std::optional<std::vector<std::string>> stated_skips = {};

  // Facts of a trial that was compared:
  std::vector<CheckRecord> checks = {};
  std::vector<InvariantRecord> invariants = {};
  std::vector<DeterminismRecord> determinism = {};
  std::vector<std::string> cost_mismatches = {};  // one line each
  std::vector<CheckRecord> expected = {};         // against the values of a bundle

  /// True while nothing is known that keeps the ranks from running.
  bool may_run() const { return !skipped && !failure; }
};

struct TrialVerdict {
  TrialStatus status = TrialStatus::not_run;
  std::string reason;  // one line; empty when passed
};

/// Decides the status: the first that applies of skipped, cut short (error, timeout, crashed,
/// out_of_memory by the error code), not_run, failed, passed. A refusal is skipped if its suite
/// states it, else failed. A trial fails by its checks, invariants, claims of the same bits, costs
/// and a bundle's values; its reason lists all of these in that order.
TrialVerdict judge(const TrialFacts& facts);

/// Judges `facts` and writes status and reason of `record`.
void set_verdict(TrialRecord& record, const TrialFacts& facts);

/// Returns the status of a timing that ended as a trial ends with `status`.
TimingStatus timing_status(TrialStatus status);

}  // namespace lossgrid
