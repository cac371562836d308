// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/rank/heap_check.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/device/kernel/rank_threads.h"
#include "harness/loss/registry.h"
#include "harness/runner/job/problem_cache.h"
#include "harness/runner/trial/trial.h"

namespace lossgrid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kHeldCase = "lens=3+2 vocab=2560 mask=all";
constexpr std::size_t kRowBytes = 2560 * 4;

/// Takes `bytes` from the heap on a thread of the rank.
void take_from_heap(std::size_t bytes) {
  parallel_for(1, [&](std::int64_t, std::int64_t) {
    std::vector<char> hidden(bytes);
    asm volatile("" : : "r"(hidden.data()) : "memory");
  });
}

/// `HungryPlan`: cp_local that takes `bytes` from the heap in one phase.
class HungryPlan final : public LossPlan {
 public:
  HungryPlan(std::unique_ptr<LossPlan> right, const std::string& phase, std::size_t bytes)
      : right_(std::move(right)), phase_(phase), bytes_(bytes) {
    if (phase_ == "plan") take_from_heap(bytes_);
  }
  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    if (phase_ == "forward") take_from_heap(bytes_);
    right_->forward(inputs, outputs);
  }
  void backward(const LossInputs& inputs, LossGradients& gradients) override {
    if (phase_ == "backward") take_from_heap(bytes_);
    right_->backward(inputs, gradients);
  }

 private:
  std::unique_ptr<LossPlan> right_;
  std::string phase_;
  std::size_t bytes_;
};

class Hungry final : public LossImplementation {
 public:
  Hungry(std::string phase, std::size_t bytes) : phase_(std::move(phase)), bytes_(bytes) {}
  ImplementationTraits describe() const override { return right_->describe(); }
  Cost cost(const LossProblem& problem) const override { return right_->cost(problem); }
  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    return std::make_unique<HungryPlan>(right_->plan(problem, context), phase_, bytes_);
  }

 private:
  std::unique_ptr<LossImplementation> right_ = make_implementation("cp_local");
  std::string phase_;
  std::size_t bytes_;
};

TrialRecord trial_with(const std::string& phase, std::size_t bytes, const Grid& grid = {}) {
  TrialSetup setup = make_trial(prepare(make_problem(parse_case(kHeldCase))), "cp_local", grid);
  setup.implementation = std::make_shared<Hungry>(phase, bytes);
  return run_trial(setup, std::chrono::seconds(60)).record;
}

TEST(HeapCheck, ARowFromTheHeapFailsAsMemoryInEveryPhase) {
  for (const std::string phase : {"plan", "forward", "backward"}) {
    const TrialRecord record = trial_with(phase, kRowBytes);
    EXPECT_EQ(record.status, TrialStatus::failed) << phase;
    EXPECT_THAT(record.reason, HasSubstr("memory_from_device: rank 0 " + phase + ": the heap"));
    EXPECT_THAT(record.cost_mismatches, ElementsAre("memory"));
    EXPECT_EQ(exit_code_of(record), ExitCode::cost_regression) << phase;
  }
}

TEST(HeapCheck, LessThanARowPasses) {
  for (const std::string phase : {"plan", "forward", "backward"}) {
    const TrialRecord record = trial_with(phase, kRowBytes - 1);
    EXPECT_EQ(record.status, TrialStatus::passed) << record.reason;
  }
}

TEST(HeapCheck, ARowIsThatOfTheRanksShard) {
  EXPECT_EQ(trial_with("forward", kRowBytes / 2, {2, 1}).status, TrialStatus::failed);
  EXPECT_EQ(trial_with("forward", kRowBytes / 2 - 1, {2, 1}).status, TrialStatus::passed);
}

TEST(HeapCheck, WrongNumbersBesideItAreAMatterOfCorrectness) {
  TrialRecord record = trial_with("forward", kRowBytes);
  record.checks.at(0).passed = false;
  EXPECT_EQ(exit_code_of(record), ExitCode::correctness);
  record = trial_with("forward", kRowBytes);
  record.invariants.push_back({"masked_rows_zero", "failed", "3 elements"});
  EXPECT_EQ(exit_code_of(record), ExitCode::correctness);
}

std::size_t least_of(const std::string& case_text) {
  const TrialSetup setup =
      make_trial(prepare(make_problem(parse_case(case_text))), "reference", {});
  std::size_t least = 0;
  for_each_part(
      setup, [&](std::size_t, const LossProblem& problem) { least = least_heap_bytes(problem); });
  return least;
}

TEST(HeapCheck, ARowIsTheShorterOneOfVocabularyAndHiddenStates) {
  EXPECT_EQ(least_of("lens=3 vocab=8192"), 8192u * 4);
  EXPECT_EQ(least_of("lens=3 vocab=8192 dtype=bf16"), 8192u * 2);
  EXPECT_EQ(least_of("lens=3 vocab=1536 hidden=1088"), 1088u * 4);
  EXPECT_EQ(least_of("lens=3 vocab=64"), 4096u);    // objects of a plan
  EXPECT_EQ(least_of("lens=100 vocab=64"), 6400u);  // tables by token
}

TEST(HeapCheck, IsNotRunWhereTheWorkIsDoneElsewhere) {
  const TrialSetup setup = make_trial(prepare(make_problem(parse_case(kHeldCase))), "cp_local", {});
  for_each_part(setup, [&](std::size_t, const LossProblem& problem) {
    ImplementationTraits external = setup.implementation->describe();
    external.is_external = true;
    HeapCheck check(problem, external, 0);
    check.watch("forward", [] { take_from_heap(kRowBytes); });
    PackFindings findings;
    check.add_to(findings);
    ASSERT_EQ(findings.invariants.size(), 1u);
    EXPECT_EQ(findings.invariants[0].status, Invariant::Status::not_run);
    EXPECT_THAT(findings.invariants[0].detail, HasSubstr("loaded code"));
  });
}

}  // namespace
}  // namespace lossgrid
