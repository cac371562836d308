// SPDX-License-Identifier: Apache-2.0
// Trials that start from hidden states and the weight of an lm_head: their records, gathered
// outputs, and the gradient of the weight, which is added to.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/runner/job/problem_cache.h"
#include "harness/runner/trial/trial.h"
#include "harness/verify/checks/expected.h"
#include "linear_setup.h"
#include "spoiled.h"

namespace lossgrid {
namespace {

using namespace linear_setup;
using ::testing::Each;
using ::testing::HasSubstr;

TEST(LinearTrial, RecordsWhatItCompared) {
  for (const char* implementation : {"reference", "linear_ce:chunk_tokens=4"}) {
    const TrialRecord record = run_case(kCase, implementation, {2, 2, 1, true});
    ASSERT_EQ(record.status, TrialStatus::passed) << record.reason;
    // Rows that take part: 7 + 15, on one TP rank each; all 25 ids, once.
    EXPECT_EQ(check_of(record, "grad_hidden").compared, 22 * kHidden);
    EXPECT_EQ(check_of(record, "grad_weight").compared, 25 * kHidden);
    for (const std::string gradient : {"grad_hidden", "grad_weight"}) {
      EXPECT_GE(check_of(record, gradient + "_l2").compared, 1);
      EXPECT_EQ(check_of(record, gradient + "_bias").compared, 1);
      EXPECT_GT(record.relative_l2.at(gradient), 0);
      EXPECT_LT(record.relative_l2.at(gradient), 1e-5);
      EXPECT_TRUE(record.fingerprints.contains(gradient));
    }
    EXPECT_FALSE(record.fingerprints.contains("grad_logits"));
    EXPECT_EQ(invariant_with_detail(record, "gradient_rows_sum_to_zero"),
              "not_run: starts from hidden states");
    EXPECT_EQ(invariant_with_detail(record, "shift_invariance"),
              "not_run: starts from hidden states");
    EXPECT_TRUE(record.sp);
    EXPECT_THAT(record.id, HasSubstr("|tp2cp2sp|"));
    EXPECT_THAT(record.reproduce, HasSubstr("--grid tp2cp2sp "));
    EXPECT_GT(record.times[2].predicted_flops, 0);
  }
}

/// Ranks add gradients of the weight block by block; these have two.
TEST(LinearTrial, ComparesEveryElementOfALargeWeight) {
  const TrialRecord record =
      run_case("lens=3+2 vocab=70 hidden=1000 mask=all", "linear_ce", {1, 2});
  ASSERT_EQ(record.status, TrialStatus::passed) << record.reason;
  EXPECT_EQ(check_of(record, "grad_weight").compared, 70 * 1000);
}

TEST(LinearTrial, RecordsChunksAndChoices) {
  // Padded to multiples of 4 over CP: 8 + 16 rows, 12 on a CP rank.
  const TrialRecord record = run_case(kCase, "linear_ce:chunk_tokens=5", {1, 2});
  ASSERT_EQ(record.status, TrialStatus::passed) << record.reason;
  EXPECT_EQ(record.chunks, 3);
  EXPECT_TRUE(record.details.contains("gemm"));
  // Sums over a rank's two packs; the rank with the most counts.
  const TrialRecord parts =
      run_case(std::string(kCase) + " microbatches=2 seed=1", "linear_ce:chunk_tokens=1", {1, 1});
  ASSERT_EQ(parts.status, TrialStatus::passed) << parts.reason;
  EXPECT_EQ(parts.chunks, parts.padded_tokens);
}

TEST(LinearTrial, CopiesOfHiddenGradientsCountOnce) {
  const TrialRecord alone = run_case(kCase, "reference", {1, 1});
  const TrialRecord copied = run_case(kCase, "reference", {4, 1});
  EXPECT_NEAR(copied.relative_l2.at("grad_hidden"), alone.relative_l2.at("grad_hidden"), 1e-12);
  EXPECT_EQ(copied.fingerprints.at("grad_hidden"), alone.fingerprints.at("grad_hidden"));
  // Every rank's copy is compared.
  EXPECT_EQ(check_of(copied, "grad_hidden").compared, 4 * check_of(alone, "grad_hidden").compared);
}

TEST(LinearTrial, SequenceParallelismChangesNoBitOfTheReference) {
  const TrialRecord whole = run_case(kCase, "reference", {2, 2});
  const TrialRecord split = run_case(kCase, "reference", {2, 2, 1, true});
  ASSERT_EQ(split.status, TrialStatus::passed) << split.reason;
  EXPECT_EQ(split.fingerprints.at("grad_hidden"), whole.fingerprints.at("grad_hidden"));
}

TEST(LinearTrial, ImplementationsOfOtherInputsAreSkippedWithoutATruth) {
  const TrialSetup setup = setup_of(kCase, "cp_local", {2, 1});
  EXPECT_EQ(setup.truth, nullptr);
  const TrialRecord logits = run_trial(setup, seconds(60)).record;
  EXPECT_EQ(logits.status, TrialStatus::skipped);
  EXPECT_EQ(logits.reason, "takes logits; the case starts from hidden states");
  const TrialRecord hidden = run_case("lens=8 vocab=25", "linear_ce", {1, 1});
  EXPECT_EQ(hidden.status, TrialStatus::skipped);
  EXPECT_EQ(hidden.reason, "takes hidden states; the case starts from logits");
}

/// Overwrites the gradient of the weight instead of adding to it.
class OverwritingPlan final : public LossPlan {
 public:
  OverwritingPlan(const LossProblem& problem, std::unique_ptr<LossPlan> right)
      : elements_(problem.weight_elements()), right_(std::move(right)) {}
  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    right_->forward(inputs, outputs);
  }
  void backward(const LossInputs& inputs, LossGradients& gradients) override {
    std::fill_n(gradients.weight, elements_, 0.0f);
    right_->backward(inputs, gradients);
  }

 private:
  std::int64_t elements_;
  std::unique_ptr<LossPlan> right_;
};

class Overwriting final : public LossImplementation {
 public:
  ImplementationTraits describe() const override { return right_->describe(); }
  Cost cost(const LossProblem& problem) const override { return right_->cost(problem); }
  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    return std::make_unique<OverwritingPlan>(problem, right_->plan(problem, context));
  }

 private:
  std::unique_ptr<LossImplementation> right_ = make_implementation("linear_ce");
};

TEST(LinearTrial, TheWeightGradientIsAddedToWhatStandsThere) {
  const auto run = [](const std::string& more, const Grid& grid, bool overwrites) {
    TrialSetup setup =
        setup_of("lens=8+16+5+11 vocab=25 hidden=6 mask=all" + more, "linear_ce", grid);
    if (overwrites) setup.implementation = std::make_shared<Overwriting>();
    return run_trial(setup, seconds(60)).record;
  };
  for (const char* more : {" tied_embedding=true", " microbatches=2",
                           " microbatches=2 tied_embedding=true weight_layout=hidden_vocab"}) {
    for (const Grid& grid : {Grid{1, 1}, Grid{2, 2}, Grid{2, 1, 2, true}}) {
      const TrialRecord right = run(more, grid, false);
      EXPECT_EQ(right.status, TrialStatus::passed) << right.reason << "\n" << right.reproduce;
      const TrialRecord wrong = run(more, grid, true);
      EXPECT_THAT(failures_of(wrong), HasSubstr("grad_weight ")) << wrong.reproduce;
    }
  }
  // The initial gradient is zero with a single pack.
  EXPECT_EQ(run("", {2, 1}, true).status, TrialStatus::passed);
}

TEST(LinearTrial, GathersWhatItAdded) {
  const std::string text = "lens=8+16+5+11 vocab=25 hidden=6 mask=all lm_head_bias=true";
  const PreparedProblem whole = prepare(make_problem(parse_case(text)));
  const BundleResults want =
      expected_results(*whole.problem, make_truth(*whole.problem, whole.rows, *whole.objective, 0));
  for (const char* more :
       {"", " microbatches=2 tied_embedding=true", " weight_layout=hidden_vocab"}) {
    for (const Grid& grid : {Grid{1, 1}, Grid{3, 2}, Grid{2, 2, 2, true}}) {
      TrialSetup setup = setup_of(text + more, "linear_ce", grid);
      setup.keep_outputs = true;
      const TrialOutcome trial = run_trial(setup, seconds(60));
      ASSERT_TRUE(trial.outputs) << trial.record.reason;
      EXPECT_TRUE(trial.outputs->grad_logits.empty());
      ASSERT_EQ(trial.outputs->grad_hidden.size(), want.grad_hidden.size());
      ASSERT_EQ(trial.outputs->grad_weight.size(), want.grad_weight.size());
      for (std::size_t k = 0; k < want.grad_hidden.size(); ++k) {
        ASSERT_NEAR(trial.outputs->grad_hidden[k], want.grad_hidden[k], 1e-6) << k;
      }
      for (std::size_t k = 0; k < want.grad_weight.size(); ++k) {
        ASSERT_NEAR(trial.outputs->grad_weight[k], want.grad_weight[k], 1e-6) << k;
      }
      ASSERT_EQ(trial.outputs->grad_bias.size(), 25u);
      for (std::size_t k = 0; k < 25; ++k) {
        ASSERT_NEAR(trial.outputs->grad_bias[k], want.grad_bias[k], 1e-6) << k;
      }
      std::vector<bool> passed;
      for (const Check& check : check_outputs(setup, want, *trial.outputs)) {
        passed.push_back(check.passed());
      }
      EXPECT_THAT(passed, Each(true)) << trial.record.reproduce;
    }
  }
}

}  // namespace
}  // namespace lossgrid
