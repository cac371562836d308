// SPDX-License-Identifier: Apache-2.0
// Roundings that the bounds of a trial have room for: those that the implementation declares, and
// no others.
#include "harness/runner/rank/trial_setup.h"

#include <cmath>

#include <gtest/gtest.h>

#include "harness/loss/registry.h"
#include "harness/runner/job/problem_cache.h"
#include "harness/runner/trial/trial.h"

namespace lossgrid {
namespace {

TrialSetup setup_for(const std::string& text, const std::string& implementation, const Grid& grid) {
  return make_trial(prepare(make_problem(parse_case(text))), implementation, grid);
}

TEST(TrialSetup, SerialAdditionsAreThoseOfTheKernelsAndOneForEachFurtherTpRank) {
  for (const int tp : {1, 2, 4}) {
    EXPECT_EQ(serial_adds(setup_for("lens=8 vocab=24", "cp_local", {tp, 2})), 22 + tp - 1);
  }
}

TEST(TrialSetup, OnlyDeclaredRoundingsCount) {
  // 8 + 16 rows in chunks of 5: 3 on each of two CP ranks with 12 rows.
  const TrialSetup setup =
      setup_for("lens=8+16 vocab=24 hidden=6 dtype=bf16", "linear_ce:chunk_tokens=5", {1, 2});
  const DeclaredRoundings declared = declared_roundings(setup);
  EXPECT_EQ(declared.weight_adds, 3);
  EXPECT_EQ(declared.weight_part, DType::f32);
  EXPECT_EQ(declared.weight_parts, 1);
  EXPECT_EQ(declared.weight_sum, DType::f32);
  EXPECT_EQ(declared.loss, 0x1p-24);
  EXPECT_EQ(declared_roundings(setup_for("lens=8 vocab=24 hidden=6", "linear_materialized", {1, 1}))
                .weight_adds,
            1);  // all rows at once
}

/// `linear_ce`, which declares every rounding that there is.
class Rounding final : public LossImplementation {
 public:
  ImplementationTraits describe() const override {
    ImplementationTraits traits = right_->describe();
    traits.rounds_loss = traits.rounds_grad_weight = true;
    return traits;
  }
  Cost cost(const LossProblem& problem) const override { return right_->cost(problem); }
  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    return right_->plan(problem, context);
  }

 private:
  std::unique_ptr<LossImplementation> right_ = make_implementation("linear_ce:chunk_tokens=5");
};

TEST(TrialSetup, DeclaredRoundingsCountForEveryPart) {
  TrialSetup setup =
      setup_for("lens=8+16 vocab=24 hidden=6 dtype=bf16", "linear_ce:chunk_tokens=5", {1, 2});
  setup.implementation = std::make_shared<Rounding>();
  const DeclaredRoundings declared = declared_roundings(setup);
  EXPECT_EQ(declared.weight_part, DType::bf16);
  EXPECT_EQ(declared.weight_parts, 6);
  EXPECT_EQ(declared.weight_sum, DType::f32);  // parts of two ranks are added in float32
  EXPECT_DOUBLE_EQ(declared.loss, 0x1p-8 * (1 + std::sqrt(6.0)));
}

}  // namespace
}  // namespace lossgrid
