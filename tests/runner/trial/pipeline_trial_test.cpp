// SPDX-License-Identifier: Apache-2.0
// Trials on grids with pipeline stages: pp changes only the ranks that have the loss, packs are in
// memory one after the other, and a stage that fails takes the others with it at once.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/comm/thread/thread_communicator.h"
#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "harness/runner/rank/rank_trial.h"
#include "harness/runner/trial/trial.h"
#include "harness/runner/verdict/cost_merge.h"
#include "reports/file/report_json.h"
#include "trials_of.h"

namespace lossgrid {
namespace {

using std::chrono::seconds;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

TrialSetup setup_of(const std::string& case_text, const std::string& implementation,
                    const Grid& grid) {
  return make_trial(prepare(make_problem(parse_case(case_text))), implementation, grid);
}

TrialRecord record_of(const std::string& case_text, const std::string& implementation,
                      const Grid& grid) {
  return run_trial(setup_of(case_text, implementation, grid), seconds(60)).record;
}

/// Returns the part of a record that does not depend on pp: ranks count from the first of the last
/// stage, and exchanges between stages are left out.
Json of_last_stage(const TrialRecord& record, const Grid& grid) {
  Json trial = without_volatile_keys(trial_to_json(record));
  for (const char* key : {"id", "grid", "reproduce"}) trial.erase(key);
  const int first = grid.first_of_last_stage();
  Json memory = Json::array();
  for (Json& row : trial["memory"]) {
    if (row["rank"] < first) continue;
    row["rank"] = row["rank"].get<int>() - first;
    memory.push_back(row);
  }
  trial["memory"] = memory;
  Json communication = Json::array();
  for (Json& row : trial["communication"]) {
    if (row["group"] == "pp") continue;
    row["rank"] = row["rank"].get<int>() - first;
    communication.push_back(row);
  }
  trial["communication"] = communication;
  for (Json& check : trial["checks"]) {
    check.erase("compared");  // every rank compares loss and metrics
    if (!check["worst"].is_null()) check["worst"].erase("rank");
  }
  return trial;
}

class Stages : public ::testing::TestWithParam<const char*> {};

TEST_P(Stages, ChangeNothingButOwnership) {
  for (Grid grid : {Grid{}, Grid{2, 2}, Grid{1, 2, 2}}) {
    for (const char* implementation : {"fused", "cp_local", "linear_ce"}) {
      const bool takes = (std::string(GetParam()).find("hidden") != std::string::npos) ==
                         (implementation == std::string("linear_ce"));
      if (!takes) continue;
      grid.pp = 1;
      const TrialRecord alone = record_of(GetParam(), implementation, grid);
      ASSERT_EQ(alone.status, TrialStatus::passed) << alone.reason;
      for (const int pp : {2, 3}) {
        grid.pp = pp;
        const TrialRecord staged = record_of(GetParam(), implementation, grid);
        ASSERT_EQ(staged.status, TrialStatus::passed) << staged.reason;
        EXPECT_EQ(staged.pp, pp);
        EXPECT_EQ(of_last_stage(staged, grid), of_last_stage(alone, Grid{}));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Stages,
    ::testing::Values("lens=5+8+1+3 vocab=24",
                      "lens=5+8+1+3+0+9+6+2 sample_mask=11110011 vocab=24 microbatches=3",
                      "lens=9+14 vocab=24 microbatches=5",
                      "lens=5+8+1+3 vocab=24 microbatches=2 objective=clipped_pg "
                      "objective.token_level_loss=false "
                      "objective.sequence_level_importance_ratios=true",
                      "lens=0+0 vocab=24 microbatches=2",
                      "lens=5+8+1+3 vocab=24 hidden=8 microbatches=2"));

TEST(StagesOfTheSameCase, AreComparedBitByBit) {
  Suite suite;
  suite.cases = {parse_case("lens=5+8+1+3+6 vocab=24 microbatches=3")};
  suite.implementations = {"fused"};
  suite.grids = {parse_grid("tp1cp1"), parse_grid("pp2"), parse_grid("cp2dp2pp2")};
  std::vector<std::string> packing;
  for (const TrialRecord& trial : trials_of(suite)) {
    EXPECT_EQ(trial.status, TrialStatus::passed) << trial.reason;
    packing.push_back(trial.determinism[1].verdict);
  }
  EXPECT_EQ(packing, (std::vector<std::string>{"not_compared", "same_bits", "same_bits"}));
}

TEST(StagesBeforeTheLast, HoldNothingAndAnnounceTheNextPack) {
  const Grid grid{1, 2, 2, false, 3};
  const TrialRecord record = record_of("lens=8+16+4 vocab=24 microbatches=4", "fused", grid);
  ASSERT_EQ(record.status, TrialStatus::passed) << record.reason;
  EXPECT_EQ(record.memory.size(), 36u);  // 12 ranks, 3 phases
  for (const PhaseMemoryRecord& row : record.memory) {
    const bool has_loss = row.rank >= 8;
    EXPECT_EQ(row.measured_peak_with_inputs_bytes > 0, has_loss) << row.rank;
    EXPECT_EQ(row.predicted_peak_bytes > 0, has_loss) << row.rank;
  }
  const auto shared =
      std::find_if(record.communication.begin(), record.communication.end(),
                   [](const CommunicationRecord& row) { return row.group == "pp"; });
  ASSERT_NE(shared, record.communication.end());
  EXPECT_EQ(shared->phase, "batch");
  EXPECT_EQ(shared->operation, "broadcast");
  EXPECT_EQ(shared->measured_calls, 4 + 2);
  EXPECT_EQ(shared->rank, 8);
}

/// Returns the results of all ranks of the trial.
std::vector<RankResult> results_of(const TrialSetup& setup) {
  std::vector<RankResult> results(static_cast<std::size_t>(setup.grid.ranks()));
  const RanksOutcome outcome = run_thread_ranks(
      setup.grid.ranks(),
      [&](Communicator& world) {
        results[static_cast<std::size_t>(world.rank())] = run_rank(setup, world);
      },
      seconds(60));
  EXPECT_TRUE(outcome.all_ok());
  return results;
}

/// Returns the peak of a pack alone, with its logits, in the backward pass.
std::int64_t predicted_peak_bytes(const TrialSetup& setup, std::size_t microbatch,
                                  const PackFindings& found) {
  const Problem& part = *setup.microbatches[microbatch].parts[0].problem;
  const PackedBatch batch = pack(part, setup.grid);
  const LossProblem problem = make_loss_problem(part, batch, setup.grid, *setup.objective);
  return problem.input_bytes() + found.output_bytes.at("backward") +
         found.predicted.backward.workspace_bytes;
}

TEST(Microbatches, AreInMemoryOneAfterTheOther) {
  const TrialSetup setup =
      setup_of("lens=5+8+1+3+9+6+12+2 vocab=24 microbatches=4", "fused", {1, 2, 1, false, 2});
  const std::vector<RankResult> results = results_of(setup);
  for (int r = 0; r < setup.grid.ranks(); ++r) {
    if (!setup.grid.is_last_stage(r)) {
      EXPECT_TRUE(results[r].packs.empty());
      EXPECT_EQ(results[r].peak_bytes, 0);
      continue;
    }
    ASSERT_EQ(results[r].packs.size(), 4u);
    std::int64_t largest = 0;
    std::int64_t sum = 0;
    for (std::size_t m = 0; m < 4; ++m) {
      const std::int64_t peak = predicted_peak_bytes(setup, m, results[r].packs[m]);
      largest = std::max(largest, peak);
      sum += peak;
    }
    EXPECT_EQ(results[r].peak_bytes, largest);
    EXPECT_LT(largest, sum);
  }
}

/// Keeps a buffer of every other pack until the plan of the next one is made.
class Hoarding final : public LossImplementation {
 public:
  ImplementationTraits describe() const override { return right_->describe(); }
  Cost cost(const LossProblem& problem) const override { return right_->cost(problem); }
  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    if (!context.observed) return right_->plan(problem, context);  // of no pack
    kept_ = kept_.bytes() > 0 ? Buffer() : context.device.allocate(1, "kept");
    return right_->plan(problem, context);
  }

 private:
  std::unique_ptr<LossImplementation> right_ = make_implementation("fused");
  mutable Buffer kept_;
};

TEST(Microbatches, MemoryThatOneLeavesBehindIsSeen) {
  TrialSetup setup = setup_of("lens=8+16 vocab=24 microbatches=2", "fused", {});
  setup.implementation = std::make_shared<Hoarding>();
  const TrialRecord record = run_trial(setup, seconds(60)).record;
  EXPECT_EQ(record.status, TrialStatus::failed);
  EXPECT_THAT(record.reason,
              HasSubstr("one_microbatch_in_memory: rank 0 still holds 1 bytes of a microbatch"));
}

TEST(StagesBeforeTheLast, AreReportedIfTheyNeedMemory) {
  RankResult idle;
  TrialRecord record;
  EXPECT_EQ(merge_memory({idle}, record), "");
  idle.peak_bytes = 8;
  EXPECT_THAT(merge_memory({RankResult(), idle}, record),
              HasSubstr("rank 1 has no part of the loss and needed 8 bytes"));
  EXPECT_EQ(record.max_peak_bytes(), 8);
}

TEST(Stages, WithPacksInAnotherOrderFailTheTrial) {
  const TrialSetup setup = setup_of("lens=5+8+1+3+9+6 vocab=24 microbatches=2", "fused", {.pp = 2});
  TrialSetup other = setup;
  std::reverse(other.microbatches.begin(), other.microbatches.end());
  const RanksOutcome outcome = run_thread_ranks(
      2, [&](Communicator& world) { run_rank(world.rank() == 0 ? setup : other, world); },
      seconds(60));
  EXPECT_EQ(outcome.first_failed_rank, 1);
  EXPECT_THAT(outcome.ranks[1].message, HasSubstr("microbatch 0: the first stage announces"));
}

TEST(Stages, EndAtOnceIfAnotherOneFails) {
  // The second broadcast of shapes on the first stage; a gather of the second pack on the last.
  for (const char* place : {"rank=1,call=2", "rank=6,call=10"}) {
    for (const char* kind : {"throw", "leave"}) {
      TrialSetup setup =
          setup_of("lens=8+16+4+6+9+3 vocab=24 microbatches=2", "fused", {2, 2, 1, false, 2});
      setup.fault = parse_fault(std::string(place) + ",kind=" + kind);
      const TrialOutcome outcome = run_trial(setup, seconds(600));
      EXPECT_EQ(outcome.record.status, TrialStatus::error) << place << kind;
      EXPECT_EQ(outcome.record.first_failed_rank, place[5] - '0') << kind;
    }
  }
}

TEST(DivergentCollectives, AreAnErrorAndNotATimeout) {
  // The last CP rank has the rows 3 and 4 of each sequence: those of the first two predict nothing.
  for (const Grid& grid : {Grid{1, 4}, Grid{2, 4}, Grid{1, 4, 1, false, 2}}) {
    const TrialOutcome outcome = run_trial(
        setup_of("lens=4+3 mask=all vocab=24 pad_multiple=8", "mutant/early_return", grid),
        seconds(600));
    EXPECT_EQ(outcome.record.status, TrialStatus::error) << outcome.record.reason;
    EXPECT_THAT(outcome.record.reason, AnyOf(HasSubstr(" left while "), HasSubstr("all ranks wait"),
                                             HasSubstr("ranks disagree")));
    EXPECT_FALSE(outcome.must_end);
  }
  const TrialRecord nobody_alone =
      record_of("lens=40 mask=all vocab=24", "mutant/early_return", {1, 4});
  EXPECT_EQ(nobody_alone.status, TrialStatus::passed) << nobody_alone.reason;
}

TEST(LengthsBeyondRows, AreSeenInPartialMicrobatches) {
  const std::string text = "lens=9+14+2+7+5 vocab=24 mask=all microbatches=";
  EXPECT_EQ(record_of(text + "1", "mutant/lengths_beyond_rows", {1, 2}).status,
            TrialStatus::passed);
  EXPECT_EQ(record_of(text + "2", "mutant/lengths_beyond_rows", {1, 2, 1, false, 2}).status,
            TrialStatus::failed);
}

}  // namespace
}  // namespace lossgrid
