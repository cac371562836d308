// SPDX-License-Identifier: Apache-2.0
// Trials on dynamic grids: microbatches with CP sizes of their own have the loss, metrics, outputs
// and gradients of the batch, for every strategy and objective.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/runner/trial/trial.h"
#include "trials_of.h"

namespace lossgrid {
namespace {

using std::chrono::seconds;

constexpr const char* kDynamicGrid = "tp2cp2dp2:dynamic";
const std::string kLengths = "lens=3+29+2+15+9+1+7+4 vocab=25 mask=ragged microbatches=3";

TrialOutcome outcome_of(const std::string& case_text, const std::string& implementation,
                        const std::string& grid, bool keep_outputs = false) {
  TrialSetup setup =
      make_trial(prepare(make_problem(parse_case(case_text))), implementation, parse_grid(grid));
  setup.keep_outputs = keep_outputs;
  return run_trial(setup, seconds(60));
}

void expect_passes(const std::string& case_text, const std::string& implementation,
                   const std::string& grid) {
  SCOPED_TRACE(case_text + " " + implementation + " " + grid);
  const TrialRecord record = outcome_of(case_text, implementation, grid).record;
  EXPECT_EQ(record.status, TrialStatus::passed) << record.reason;
}

TEST(DynamicGrids, MicrobatchesHaveSizesByTheirLongestSequence) {
  const TrialRecord record = outcome_of(kLengths, "cp_local", kDynamicGrid).record;
  EXPECT_EQ(record.status, TrialStatus::passed) << record.reason;
  EXPECT_THAT(record.details.at("cp_sizes"), testing::HasSubstr("4"));
  EXPECT_NE(record.details.at("cp_sizes"), "4,4,4");
  EXPECT_EQ(record.grid(), "tp2cp2dp2:dynamic");
}

TEST(DynamicGrids, EveryStrategyPasses) {
  for (const char* implementation : {"reference", "per_sequence", "fused", "cp_gather_logits",
                                     "cp_local", "one_sweep:in_place=true"}) {
    expect_passes(kLengths + " statistics=false", implementation, kDynamicGrid);
    expect_passes(kLengths + " statistics=false", implementation, "tp1cp6:dynamic");
  }
  for (const char* implementation : {"linear_ce:chunk_tokens=5", "linear_materialized"}) {
    expect_passes(kLengths + " hidden=6 lm_head_bias=true", implementation, kDynamicGrid);
    expect_passes(kLengths + " hidden=6", implementation, "tp2cp4sp:dynamic");
  }
}

TEST(DynamicGrids, EveryKindOfObjectivePasses) {
  for (const char* objective :
       {"objective.token_level_loss=false", "objective=clipped_pg", "objective=dpo",
        "objective=clipped_pg objective.sequence_level_importance_ratios=true "
        "objective.token_level_loss=false",
        "objective=distill teacher_topk=3", "predictions=true"}) {
    expect_passes(kLengths + " " + objective, "cp_local", kDynamicGrid);
    expect_passes(kLengths + " " + objective, "fused", "tp1cp2dp3pp2:dynamic");
  }
}

TEST(DynamicGrids, EmptyMicrobatchesAndPacksAreDummies) {
  for (int seed = 0; seed < 4; ++seed) {
    expect_passes(fmt::format("lens=9+2 vocab=24 microbatches=3 seed={}", seed), "cp_local",
                  "tp1cp4:dynamic");
  }
}

TEST(DynamicGrids, HaveTheOutputsOfAStaticGrid) {
  // Rows that nothing trains on hold NaN otherwise.
  const std::string finite = "lens=3+29+2+15+9+1+7+4 vocab=25 mask=all poison=none microbatches=3";
  const TrialOutcome still = outcome_of(finite, "cp_local", "tp1cp2dp2", true);
  const TrialOutcome dynamic = outcome_of(finite, "cp_local", "tp1cp2dp2:dynamic", true);
  EXPECT_EQ(dynamic.outputs->logprobs, still.outputs->logprobs);
  EXPECT_EQ(dynamic.outputs->grad_logits, still.outputs->grad_logits);
  EXPECT_EQ(dynamic.record.metrics.size(), still.record.metrics.size());
}

TEST(DynamicGrids, FactorsOfAFrameworkNeedAStaticOne) {
  try {
    outcome_of("lens=5+8 vocab=24 framework=areal", "fused", kDynamicGrid);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_THAT(error.what(),
                testing::HasSubstr("grid tp2cp2dp2:dynamic has a cp and dp for every microbatch"));
  }
}

}  // namespace
}  // namespace lossgrid
