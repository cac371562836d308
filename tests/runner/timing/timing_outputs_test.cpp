// SPDX-License-Identifier: Apache-2.0
// Outputs of timed implementations are verified after the last timed iteration, and all of them
// start from the same inputs and write to the same buffers, also beside one that works in place.
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/loss/registry.h"
#include "timing_case.h"

namespace lossgrid {
namespace {

using ::testing::HasSubstr;

/// Differences of a plan from the `fused` plan inside it.
struct Twist {
  bool one_sweep = false;
  bool in_place = false;
  int wrong_from = 0;      // the gradient is doubled from this iteration on; 0: never
  int lazy_from = 0;       // nothing is written from this iteration on
  int metric_from = 0;     // the loss is doubled from this iteration on
  std::int64_t bytes = 0;  // that forward declares to read
};

class TwistedPlan final : public LossPlan {
 public:
  TwistedPlan(std::unique_ptr<LossPlan> right, const LossProblem& problem, Twist twist)
      : right_(std::move(right)),
        twist_(twist),
        buffer_(static_cast<std::size_t>(problem.logits_bytes() / 4)) {}

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    if (twist_.one_sweep) throw std::runtime_error("forward of one sweep");
    run_forward(inputs, outputs);
  }
  void backward(const LossInputs& inputs, LossGradients& gradients) override {
    if (twist_.one_sweep) throw std::runtime_error("backward of one sweep");
    run_backward(inputs, gradients);
  }
  void forward_backward(const LossInputs& inputs, LossOutputs& outputs,
                        LossGradients& gradients) override {
    run_forward(inputs, outputs);
    run_backward(inputs, gradients);
  }

 private:
  static bool since(int first, int iteration) { return first > 0 && iteration >= first; }

  void run_forward(const LossInputs& inputs, LossOutputs& outputs) {
    ++iteration_;
    if (since(twist_.lazy_from, iteration_)) {
      outputs.result = last_.result;
      outputs.owned_labels = last_.owned_labels;
      return;
    }
    right_->forward(inputs, outputs);
    last_ = outputs;
    if (since(twist_.metric_from, iteration_)) outputs.result.loss *= 2;
  }

  void run_backward(const LossInputs& inputs, LossGradients& gradients) {
    if (since(twist_.lazy_from, iteration_)) return;
    LossGradients own{buffer_.data(), nullptr, nullptr};
    right_->backward(inputs, own);
    if (since(twist_.wrong_from, iteration_)) {
      for (float& x : buffer_) x *= 2;
    }
    if (twist_.in_place != (gradients.logits == inputs.logits)) {
      throw std::runtime_error("gradients are not where they belong");
    }
    std::memcpy(gradients.logits, buffer_.data(), buffer_.size() * sizeof(float));
  }

  std::unique_ptr<LossPlan> right_;
  Twist twist_;
  std::vector<float> buffer_;
  LossOutputs last_;
  int iteration_ = 0;
};

class Twisted final : public LossImplementation {
 public:
  explicit Twisted(const ImplementationOptions& options) : right_(make_implementation("fused")) {
    for (const auto& [key, value] : options) {
      if (key == "one_sweep") twist_.one_sweep = value == "true";
      if (key == "in_place") twist_.in_place = value == "true";
      if (key == "wrong_from") twist_.wrong_from = std::stoi(value);
      if (key == "lazy_from") twist_.lazy_from = std::stoi(value);
      if (key == "bytes") twist_.bytes = std::stoll(value);
      if (key == "metric_from") twist_.metric_from = std::stoi(value);
    }
  }
  ImplementationTraits describe() const override {
    ImplementationTraits description = right_->describe();
    description.one_sweep = twist_.one_sweep;
    description.in_place = twist_.in_place;
    return description;
  }
  Cost cost(const LossProblem& problem) const override {
    Cost cost = right_->cost(problem);
    cost.forward.read_bytes = twist_.bytes;
    cost.backward.read_bytes = 0;
    cost.backward.written_bytes = 0;
    return cost;
  }
  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    return std::make_unique<TwistedPlan>(right_->plan(problem, context), problem, twist_);
  }

 private:
  std::unique_ptr<LossImplementation> right_;
  Twist twist_;
};

const Registered registered{ImplementationEntry{
    "timing_twisted", ImplementationKind::control, "", "fused, twisted",
    [](const ImplementationOptions& options) { return std::make_unique<Twisted>(options); }}};

constexpr const char* kCase = "lens=5+8+3 vocab=24";

TEST(TimedOutputs, AreVerifiedAfterTheLastIteration) {
  for (const char* grid : {"tp1cp1", "tp2cp2"}) {
    const TimingRecord right =
        time_case(kCase, {"fused", "timing_twisted"}, parse_grid(grid)).record;
    EXPECT_LT(right.status, TimingStatus::above_ceiling) << right.reason;
    // Right in the warm-up and the first rounds, wrong by the last.
    const std::string late = "timing_twisted:wrong_from=4";
    const TimingRecord wrong = time_case(kCase, {"fused", late}, parse_grid(grid)).record;
    EXPECT_EQ(wrong.status, TimingStatus::failed);
    EXPECT_THAT(wrong.reason, HasSubstr("outputs of the last timed iteration: grad_logits: ratio"));
    for (const char* phase : {"forward", "backward", "forward_backward"}) {
      EXPECT_EQ(row_of(wrong, late, phase).status, TimingStatus::failed) << phase;
      EXPECT_NE(row_of(wrong, "fused", phase).status, TimingStatus::failed) << phase;
    }
    EXPECT_EQ(exit_code_of(std::vector{wrong}), ExitCode::correctness);
  }
}

TEST(TimedOutputs, DoNotPassIfThePreviousImplementationWroteThem) {
  const TimingRecord record =
      time_case(kCase, {"fused", "timing_twisted:lazy_from=4"}, {1, 1}).record;
  EXPECT_EQ(record.status, TimingStatus::failed);
  EXPECT_THAT(record.reason, HasSubstr("every_element_written"));
}

TEST(TimedOutputs, LossAndMetricsCount) {
  const TimingRecord record = time_case(kCase, {"timing_twisted:metric_from=4"}, {1, 2}).record;
  EXPECT_EQ(record.status, TimingStatus::failed);
  EXPECT_THAT(record.reason, HasSubstr("loss: ratio"));
}

TEST(TimedOutputs, AreRightInPlaceAndDoNotSpoilTheOthers) {
  const std::string in_place = "timing_twisted:in_place=true";
  for (const char* grid : {"tp1cp1", "tp2cp2"}) {
    const TimingRecord record =
        time_case(kCase, {"fused", in_place, "cp_local"}, parse_grid(grid)).record;
    EXPECT_LT(record.status, TimingStatus::above_ceiling) << record.reason;
    EXPECT_EQ(record.rows.size(), 9u);
    const TimingRecord wrong =
        time_case(kCase, {"fused", "timing_twisted:in_place=true:wrong_from=4"}, parse_grid(grid))
            .record;
    EXPECT_EQ(wrong.status, TimingStatus::failed);
  }
}

TEST(TimedOutputs, OneSweepHasOnePhase) {
  const std::string one_sweep = "timing_twisted:one_sweep=true";
  for (const std::string more : {"", ":in_place=true"}) {
    const TimingRecord record = time_case(kCase, {one_sweep + more, "fused"}, {2, 1}).record;
    EXPECT_LT(record.status, TimingStatus::above_ceiling) << record.reason;
    ASSERT_EQ(record.rows.size(), 4u);
    EXPECT_EQ(record.rows[0].phase, "forward_backward");
    // The baseline has no other phase to compare with.
    EXPECT_FALSE(row_of(record, "fused", "forward").speedup);
    EXPECT_TRUE(row_of(record, "fused", "forward_backward").speedup);
  }
  const TimingRecord wrong = time_case(kCase, {one_sweep + ":wrong_from=4"}, {1, 1}).record;
  EXPECT_EQ(wrong.status, TimingStatus::failed);
}

TEST(TimedOutputs, AreNoSuccessIfFasterThanTheMachine) {
  const std::string absurd = "timing_twisted:bytes=1000000000000000";
  EXPECT_EQ(time_case(kCase, {"fused", absurd}, {1, 1}).record.status, TimingStatus::unstable);
  // Many: some of them may be the same.
  const TimingRecord record = time_case(kCase, {"fused", absurd}, {1, 1}, few_samples(60)).record;
  EXPECT_EQ(record.status, TimingStatus::above_ceiling);
  EXPECT_THAT(record.reason, HasSubstr("% of what read reaches here"));
  EXPECT_EQ(row_of(record, absurd, "forward").status, TimingStatus::above_ceiling);
  EXPECT_NE(row_of(record, absurd, "backward").status, TimingStatus::above_ceiling);
  EXPECT_EQ(exit_code_of(std::vector{record}), ExitCode::time_regression);
}

TEST(TimedOutputs, AreVerifiedWithTheSumOfTheWeightGradientOfAnLmHead) {
  const std::vector<std::string> names{"linear_ce:chunk_tokens=8", "linear_materialized",
                                       "linear_ce_onepass"};
  for (const char* text : {"lens=16+32 vocab=96 hidden=24 dtype=bf16",
                           "lens=16+32 vocab=97 hidden=24 weight_layout=hidden_vocab",
                           "lens=16+32 vocab=97 hidden=24 lm_head_bias=true",
                           "lens=16+32 vocab=96 hidden=24 tied_embedding=true"}) {
    for (const char* grid : {"tp1cp2", "tp2cp2sp"}) {
      const TimingRecord record = time_case(text, names, parse_grid(grid)).record;
      EXPECT_LT(record.status, TimingStatus::above_ceiling) << text << grid << record.reason;
      EXPECT_EQ(record.rows.size(), 9u);
    }
  }
}

}  // namespace
}  // namespace lossgrid
