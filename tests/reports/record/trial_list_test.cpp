// SPDX-License-Identifier: Apache-2.0
#include "reports/record/trial_list.h"

#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "reports/file/compact_report.h"
#include "reports/file/report_json.h"
#include "reports/text/table.h"
#include "sample_run.h"

namespace lossgrid {
namespace {

/// A run with trials of all kinds, of which `count` stay in memory.
RunRecord run_with(std::size_t count) {
  const RunRecord all = sample_run();
  RunRecord run = all;
  run.trials.clear();
  run.trials.keep_in_memory(count);
  for (int times = 0; times < 3; ++times) {
    for (const TrialRecord& trial : all.trials) run.trials.push_back(trial);
    for (const TrialStatus status : trial_statuses())
      run.trials.push_back(sample_cut_short(status));
    run.trials.push_back(sample_linear_trial(4, 1e-7, 0.5));
    run.trials.push_back(sample_nan());
  }
  return run;
}

TEST(TrialList, InAFileIsTheSameAsInMemory) {
  const RunRecord wanted = run_with(1000);
  for (const std::size_t count : {1u, 2u, 10u}) {
    const RunRecord run = run_with(count);
    EXPECT_EQ(run.trials.size(), wanted.trials.size());
    EXPECT_EQ(json_text(run_to_json(run)), json_text(run_to_json(wanted)));
    EXPECT_EQ(compact_report_text(run), compact_report_text(wanted));
    EXPECT_EQ(json_text(trial_to_json(run.trials.last())),
              json_text(trial_to_json(wanted.trials.last())));
    for (const TableRows rows : {TableRows::one_per_grid, TableRows::grids_folded}) {
      EXPECT_EQ(format_trials_table(run, rows), format_trials_table(wanted, rows));
    }
    EXPECT_EQ(format_summary(run), format_summary(wanted));
  }
}

TEST(TrialList, ACopyHasItsOwnFile) {
  const RunRecord run = run_with(2);
  RunRecord copy = run;
  copy.trials.push_back(sample_trial(8, 1, "fused"));
  EXPECT_EQ(copy.trials.size(), run.trials.size() + 1);
  RunRecord other = run;
  other.trials.push_back(sample_trial(4, 1, "fused"));
  EXPECT_EQ(copy.trials.last().tp, 8);
  EXPECT_EQ(other.trials.last().tp, 4);
  std::size_t count = 0;
  int last_tp = 0;
  for (const TrialRecord& trial : copy.trials) {
    ++count;
    last_tp = trial.tp;
  }
  EXPECT_EQ(count, copy.trials.size());
  EXPECT_EQ(last_tp, 8);
}

TEST(TrialList, InAFileCannotBeChanged) {
  RunRecord run = run_with(2);
  EXPECT_THROW(run.trials.in_memory(), Error);
  EXPECT_EQ(run_with(1000).trials.in_memory().size(), run.trials.size());
}

}  // namespace
}  // namespace lossgrid
