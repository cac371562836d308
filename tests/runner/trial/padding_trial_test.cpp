// SPDX-License-Identifier: Apache-2.0
// Implementations that need paddings of their own get them: trials, timings and plans, on every
// grid, from cases and bundles, beside implementations that need none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "harness/planner/plan/plan.h"
#include "harness/problem/bundle/bundle.h"
#include "harness/runner/job/problem_cache.h"
#include "harness/runner/trial/trial.h"
#include "spoiled.h"
#include "timing_case.h"

namespace lossgrid {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Implementation that makes plans for packs of this padding only, whatever it declares.
class Padded : public LossImplementation {
 public:
  Padded(Padding needed, Padding declared)
      : right_(make_implementation("cp_local")), needed_(needed), declared_(declared) {}
  ImplementationTraits describe() const override {
    ImplementationTraits description = right_->describe();
    description.padding = declared_;
    return description;
  }
  Cost cost(const LossProblem& problem) const override { return right_->cost(problem); }
  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    const PackedBatch& batch = problem.batch;
    for (std::int64_t i = 0; i < batch.sequences(); ++i) {
      if (batch.padded_length(i) % needed_.sequence == 0) continue;
      throw_bad_input("a sequence of {} rows", batch.padded_length(i));
    }
    if (batch.padded_tokens() % needed_.pack != 0) {
      throw_bad_input("a pack of {} rows", batch.padded_tokens());
    }
    return right_->plan(problem, context);
  }

 private:
  std::unique_ptr<LossImplementation> right_;
  Padding needed_;
  Padding declared_;
};

constexpr Padding kRows16{16, 1};
constexpr Padding kHuge{65521, 65519};  // primes

ImplementationEntry entry(const std::string& name, Padding needed, Padding declared) {
  return {"padded/" + name, ImplementationKind::control, "", "computes what cp_local does",
          [needed, declared](const ImplementationOptions&) {
            return std::make_unique<Padded>(needed, declared);
          }};
}

const Registered rows16{entry("rows16", kRows16, kRows16)};
const Registered undeclared{entry("undeclared", kRows16, {})};
const Registered rows16_pack48{entry("rows16_pack48", {16, 48}, {16, 48})};
const Registered pack10{entry("pack10", {1, 10}, {1, 10})};
const Registered huge{entry("huge", kHuge, kHuge)};

/// Implementation that is right but for a 1 in the gradient of the last row, which is padding.
class WrongInPadding final : public Padded {
 public:
  WrongInPadding() : Padded(kRows16, kRows16) {}
  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    return std::make_unique<Plan>(Padded::plan(problem, context),
                                  problem.local_rows() * problem.width() - 1);
  }

 private:
  class Plan final : public LossPlan {
   public:
    Plan(std::unique_ptr<LossPlan> right, std::int64_t last)
        : right_(std::move(right)), last_(last) {}
    void forward(const LossInputs& inputs, LossOutputs& outputs) override {
      right_->forward(inputs, outputs);
    }
    void backward(const LossInputs& inputs, LossGradients& gradients) override {
      right_->backward(inputs, gradients);
      static_cast<float*>(gradients.logits)[last_] = 1;
    }

   private:
    std::unique_ptr<LossPlan> right_;
    std::int64_t last_;
  };
};
const Registered wrong_in_padding{ImplementationEntry{
    "padded/wrong", ImplementationKind::mutant, "", "the last row has a gradient",
    [](const ImplementationOptions&) { return std::make_unique<WrongInPadding>(); }}};

PreparedProblem prepared_case(const std::string& text) {
  return prepare(make_problem(parse_case(text)));
}

TrialRecord padded_trial(const PreparedProblem& prepared, const std::string& implementation,
                         const std::string& grid) {
  return run_trial(make_trial(prepared, implementation, parse_grid(grid)), seconds(60)).record;
}

TEST(PaddedTrial, GetsItsPaddingOnEveryGrid) {
  for (const char* text :
       {"lens=5+8+0+1+3 vocab=24", "lens=5+8+0+1+3 vocab=24 cu=padded poison=inf",
        "lens=5+8+1+19 vocab=24 microbatches=4 objective=clipped_pg pad_multiple=6"}) {
    const PreparedProblem prepared = prepared_case(text);
    for (const char* grid : {"tp1cp1", "tp2cp1", "tp2cp2", "tp1cp2", "tp1cp2dp2pp2"}) {
      const TrialRecord record = padded_trial(prepared, "padded/rows16_pack48", grid);
      EXPECT_EQ(record.status, TrialStatus::passed) << record.id << record.reason;
      EXPECT_EQ(record.padded_tokens % 48, 0);
      EXPECT_EQ(record.details.at("padding"),
                "sequences to multiples of 16 and packs to multiples of 48");
    }
  }
}

TEST(PaddedTrial, HasTheIdAndTheBitsOfOthersOnTheSameTruth) {
  const PreparedProblem prepared = prepared_case("lens=5+8+1+3 vocab=24");
  const Grid grid{1, 2};
  const TrialSetup padded = make_trial(prepared, "padded/rows16", grid);
  EXPECT_EQ(padded.truth, make_trial(prepared, "cp_local", grid).truth);
  const TrialRecord with = run_trial(padded, seconds(60)).record;
  const TrialRecord without = padded_trial(prepared, "cp_local", "tp1cp2");
  EXPECT_EQ(with.id, "lens=5+8+1+3 vocab=24|tp1cp2|padded/rows16|cpu");
  EXPECT_EQ(with.case_key(), without.case_key());
  EXPECT_EQ(with.reproduce,
            "lossgrid run --impl padded/rows16 --grid tp1cp2 --case \"lens=5+8+1+3 vocab=24\"");
  EXPECT_EQ(with.fingerprints, without.fingerprints);
  EXPECT_EQ(with.padded_tokens, 64);
  EXPECT_EQ(without.padded_tokens, 24);
  EXPECT_FALSE(without.details.contains("padding"));
}

TEST(PaddedTrial, WithoutADeclarationIsAnError) {
  const PreparedProblem prepared = prepared_case("lens=5+8 vocab=24");
  const TrialRecord record = padded_trial(prepared, "padded/undeclared", "tp1cp1");
  EXPECT_EQ(record.status, TrialStatus::error);
  EXPECT_THAT(record.reason, HasSubstr("a sequence of 5 rows"));
  EXPECT_EQ(
      padded_trial(prepared_case("lens=16+32 vocab=24"), "padded/undeclared", "tp1cp1").status,
      TrialStatus::passed);
}

TEST(PaddedTrial, IsRejectedIfPaddingIsWrong) {
  for (const char* grid : {"tp1cp1", "tp1cp2"}) {
    const TrialRecord record =
        padded_trial(prepared_case("lens=5+8 vocab=24"), "padded/wrong", grid);
    EXPECT_EQ(record.status, TrialStatus::failed) << grid;
    EXPECT_EQ(failures_of(record), "masked_rows_zero ");
  }
}

TEST(PaddedTrial, BeyondWhatAPackHoldsIsSkippedWithTheReason) {
  const TrialRecord record =
      padded_trial(prepared_case("lens=5+8 vocab=24"), "padded/huge", "tp1cp2");
  EXPECT_EQ(record.status, TrialStatus::skipped);
  EXPECT_THAT(record.reason,
              AllOf(HasSubstr("needs sequences to multiples of 65521 and packs to multiples of "
                              "65519: "),
                    HasSubstr("exceed 2147483647")));
}

TEST(PaddedTrial, IsComparedWithTheExpectedValuesOfABundle) {
  for (const char* name : {"nll_basic", "nll_empty_and_single", "grpo_default"}) {
    Bundle bundle =
        read_bundle(std::string(LOSSGRID_SOURCE_DIR "/tests/golden/") + name + ".safetensors");
    ASSERT_TRUE(bundle.expected);
    const PreparedProblem prepared = prepare(std::move(bundle.problem));
    for (const Grid& grid : {Grid{1, 1}, Grid{2, 2}}) {
      TrialSetup setup = make_trial(prepared, "padded/rows16", grid);
      setup.keep_outputs = true;
      const TrialOutcome trial = run_trial(setup, seconds(60));
      ASSERT_EQ(trial.record.status, TrialStatus::passed) << trial.record.reason;
      EXPECT_EQ(trial.record.padded_tokens % 16, 0);
      for (const Check& check : check_outputs(setup, *bundle.expected, *trial.outputs)) {
        EXPECT_TRUE(check.passed()) << check.name();
      }
    }
  }
}

TEST(PaddedTiming, IsOfOneBatchThatSuitsAll) {
  const TimingRecord record =
      time_case("lens=5+8 vocab=24",
                {"fused", "padded/rows16", "padded/pack10", "padded/huge", "linear_ce"}, {1, 2})
          .record;
  EXPECT_EQ(record.status, TimingStatus::unstable) << record.reason;  // few samples, but right
  EXPECT_EQ(record.padding,
            "sequences to multiples of 16 and packs to multiples of 10, for padded/rows16, "
            "padded/pack10");
  EXPECT_EQ(record.id(), "lens=5+8 vocab=24|tp1cp2|hot|timing");
  ASSERT_EQ(record.skipped.size(), 2u);
  EXPECT_THAT(record.skipped[0].reason, HasSubstr("65521"));
  // 80 rows on two ranks of 24 float32 logits, which are read once.
  EXPECT_EQ(row_of(record, "fused", "forward").rank_bytes, 40 * 24 * 4);
  EXPECT_EQ(time_case("lens=5+8 vocab=24", {"fused", "padded/huge"}, {1, 2}).record.padding, "");
}

TEST(PaddedPlan, HasTheSizesOfTheTrial) {
  const CaseSpec spec = parse_case("lens=5+8 vocab=24");
  const Grid grid{1, 2};
  const PlanRow row = plan_trial(spec, grid, "padded/rows16_pack48");
  EXPECT_EQ(row.padded_tokens, 48);
  EXPECT_EQ(row.padded_tokens,
            padded_trial(prepared_case("lens=5+8 vocab=24"), "padded/rows16_pack48", "tp1cp2")
                .padded_tokens);
  EXPECT_EQ(plan_trial(spec, grid, "cp_local").padded_tokens, 16);
  EXPECT_THAT(plan_trial(spec, grid, "padded/huge").skipped, HasSubstr("65521"));
}

}  // namespace
}  // namespace lossgrid
