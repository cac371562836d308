// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/launched_work.h"

#include <gmock/gmock.h>

#include "harness/runner/run.h"

namespace lossgrid {
namespace {

using testing::ElementsAre;

Suite suite_of_two_grids() {
  Suite suite;
  suite.cases = {parse_case("lens=5+8 vocab=96")};
  suite.cases[0].name = "small";
  suite.implementations = {"fused"};
  suite.grids = {parse_grid("tp1cp1"), parse_grid("tp2cp2")};
  suite.timing = TimingRequest{};
  return suite;
}

std::vector<TrialStatus> statuses(const LaunchedWork& work) {
  RunRecord record;
  work.fill(record, "never");
  std::vector<TrialStatus> found;
  for (const TrialRecord& trial : record.trials) found.push_back(trial.status);
  return found;
}

TEST(LaunchedWork, KnowsWhatIsPlanned) {
  const LaunchedWork work({suite_of_two_grids()}, true);
  EXPECT_EQ(work.planned(), 4u);  // two trials, two timings
  EXPECT_EQ(work.reached(), 0u);
  RunRecord record;
  work.fill(record, "never");
  ASSERT_EQ(record.trials.size(), 2u);
  EXPECT_EQ(record.trials[1].grid(), "tp2cp2");
  EXPECT_EQ(record.trials[1].case_name, "small");
  EXPECT_EQ(record.trials[1].status, TrialStatus::not_run);
  EXPECT_EQ(record.trials[1].reason, "never");
  EXPECT_TRUE(record.timings.empty());
  EXPECT_EQ(LaunchedWork({suite_of_two_grids()}, false).planned(), 2u);
}

TEST(LaunchedWork, TakesWhatALaunchHasReached) {
  LaunchedWork work({suite_of_two_grids()}, true);
  RunRecord found;
  found.trials = planned_trials({suite_of_two_grids()});
  found.trials[0].status = TrialStatus::error;  // an outcome too; the other is not_run
  TrialRecord stranger = found.trials[0];
  stranger.id = "lens=1|tp1cp1|fused|cpu";
  found.trials.push_back(stranger);
  work.take(found);
  EXPECT_EQ(work.reached(), 1u);
  EXPECT_THAT(statuses(work), ElementsAre(TrialStatus::error, TrialStatus::not_run));
  EXPECT_FALSE(work.has_all_of("tp1cp1"));  // its timing is missing
  TimingRecord timing;
  timing.case_text = format_case(suite_of_two_grids().cases[0]);
  timing.grid = "tp1cp1";
  timing.cache = "hot";
  found.timings = {timing};
  work.take(found);
  EXPECT_TRUE(work.has_all_of("tp1cp1"));
  EXPECT_FALSE(work.has_all_of("tp2cp2"));
  EXPECT_EQ(work.reached(), 2u);
}

TEST(LaunchedWork, MarksWhatALaunchDiedOf) {
  LaunchedWork work({suite_of_two_grids()}, true);
  const std::vector<TrialRecord> planned = planned_trials({suite_of_two_grids()});
  work.lose({planned[1].id, {ErrorCode::process_died, "killed"}, "mpi", {RankRecord{}}});
  EXPECT_THAT(statuses(work), ElementsAre(TrialStatus::not_run, TrialStatus::crashed));
  work.lose({timing_id(format_case(suite_of_two_grids().cases[0]), "tp2cp2", "hot"),
             {ErrorCode::timeout, "late"},
             "mpi",
             {}});
  RunRecord record;
  work.fill(record, "never");
  EXPECT_EQ(record.trials[1].reason, "killed");
  EXPECT_EQ(record.trials[1].transport, "mpi");
  EXPECT_EQ(record.trials[1].ranks.size(), 1u);
  ASSERT_EQ(record.timings.size(), 1u);
  EXPECT_EQ(record.timings[0].status, TimingStatus::timeout);
  EXPECT_TRUE(work.has_all_of("tp2cp2"));
}

TEST(LaunchedWork, ComparesBitsOfTrialsOfDifferentLaunches) {
  RunRecord found;
  found.trials = planned_trials({suite_of_two_grids()});
  for (TrialRecord& trial : found.trials.in_memory()) {
    trial.status = TrialStatus::passed;
    trial.determinism = {{"packing", "not_compared", true, ""},
                         {"tp_size", "not_compared", true, ""}};
    trial.fingerprints = {{"logprobs", trial.tp == 1 ? "a" : "b"}};
  }
  LaunchedWork work({suite_of_two_grids()}, true);
  work.take(found);
  EXPECT_THAT(statuses(work), ElementsAre(TrialStatus::passed, TrialStatus::failed));
}

}  // namespace
}  // namespace lossgrid
