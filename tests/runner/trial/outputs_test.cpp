// SPDX-License-Identifier: Apache-2.0
// Implementations that give only some of the outputs: given outputs are judged as ever, all others
// are neither passed nor failed.
#include <algorithm>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/runner/job/problem_cache.h"
#include "harness/runner/trial/trial.h"
#include "harness/verify/truth/bounds.h"
#include "spoiled.h"

namespace lossgrid {
namespace {

using ::testing::Contains;
using ::testing::IsSupersetOf;
using ::testing::Not;

/// Writes NaN into outputs that nothing may read.
class PartPlan final : public LossPlan {
 public:
  PartPlan(std::unique_ptr<LossPlan> right, const Outputs& given)
      : right_(std::move(right)), given_(given) {}
  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    right_->forward(inputs, outputs);
    const auto hide = [](bool is_given, std::span<float> column) {
      if (!is_given) std::fill(column.begin(), column.end(), std::nanf(""));
    };
    hide(given_.logprobs, outputs.tokens.logprobs);
    hide(given_.entropy, outputs.tokens.terms[RowTerm::entropy]);
    hide(given_.vocab_range, outputs.tokens.terms[RowTerm::vocab_min]);
    hide(given_.vocab_range, outputs.tokens.terms[RowTerm::vocab_max]);
    if (!given_.loss) outputs.result.loss = 0;
    given_.keep_given(outputs.result.metrics);
    if (!given_.owned_labels) outputs.owned_labels = -7;
  }
  void backward(const LossInputs& inputs, LossGradients& gradients) override {
    right_->backward(inputs, gradients);
    if (given_.gradients) return;
    for (void* gradient : {gradients.logits, gradients.hidden}) {
      if (gradient != nullptr) *static_cast<float*>(gradient) = std::nanf("");
    }
  }

 private:
  std::unique_ptr<LossPlan> right_;
  Outputs given_;
};

/// The implementation `base`, of which only a part is given.
class PartOf final : public LossImplementation {
 public:
  PartOf(std::shared_ptr<const LossImplementation> base, Outputs given)
      : base_(std::move(base)), given_(std::move(given)) {}
  ImplementationTraits describe() const override {
    ImplementationTraits description = base_->describe();
    description.outputs = given_;
    return description;
  }
  Cost cost(const LossProblem& problem) const override { return base_->cost(problem); }
  DType grad_logits_dtype(const LossProblem& problem) const override {
    return base_->grad_logits_dtype(problem);
  }
  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    return std::make_unique<PartPlan>(base_->plan(problem, context), given_);
  }

 private:
  std::shared_ptr<const LossImplementation> base_;
  Outputs given_;
};

TrialOutcome run_part(const std::string& text, const std::shared_ptr<const LossImplementation>& all,
                      const Outputs& given, const Grid& grid) {
  const CaseSpec spec = parse_case(text);
  TrialSetup setup =
      make_trial(prepare(make_problem(spec)), spec.hidden > 0 ? "linear_ce" : "cp_local", grid);
  setup.implementation = std::make_shared<PartOf>(all, given);
  setup.keep_outputs = true;
  return run_trial(setup, std::chrono::seconds(60));
}

std::vector<std::string> check_names(const std::vector<CheckRecord>& checks) {
  std::vector<std::string> names;
  for (const CheckRecord& check : checks) names.push_back(check.name);
  return names;
}

std::string status_of_invariant(const TrialRecord& record, const std::string& name) {
  for (const InvariantRecord& invariant : record.invariants) {
    if (invariant.name == name) return invariant.status;
  }
  return "missing";
}

std::shared_ptr<const LossImplementation> right_one(const char* name = "cp_local") {
  return make_implementation(name);
}

constexpr const char* kPartCase = "lens=5+8+1+3 vocab=24 mask=all";

TEST(Outputs, LogprobsAloneHaveTheChecksAndMetricsOfLogprobs) {
  Outputs given;
  given.entropy = given.vocab_range = given.owned_labels = false;
  const TrialOutcome trial = run_part(kPartCase, right_one(), given, {2, 2});
  EXPECT_EQ(trial.record.status, TrialStatus::passed) << trial.record.reason;
  const std::vector<std::string> checks = check_names(trial.record.checks);
  EXPECT_THAT(checks, IsSupersetOf({"logprobs", "loss", "grad_logits", "grad_logits_bias",
                                    "metric.loss_avg", "metric.ppl_avg", "metric.n_seqs"}));
  for (const char* name : {"entropy", "vocab_min", "vocab_max", "metric.entropy_avg",
                           "metric.vocab_min_logits_min", "metric.vocab_max_logits_max"}) {
    EXPECT_THAT(checks, Not(Contains(name)));
  }
  EXPECT_EQ(status_of_invariant(trial.record, "entropy_in_range"), "not_run");
  EXPECT_EQ(status_of_invariant(trial.record, "owned_labels_sum_to_valid_tokens"), "not_run");
  EXPECT_EQ(status_of_invariant(trial.record, "logprobs_nonpositive"), "passed");
  EXPECT_FALSE(trial.record.metrics.contains("entropy_avg"));
  EXPECT_TRUE(trial.record.metrics.contains("ppl_avg"));
}

TEST(Outputs, HeadsWithoutAVocabularyHaveNoChecksOfProbabilities) {
  const TrialOutcome trial =
      run_part("objective=value head=value dtype=f64 values=all_negative lens=5+8 mask=all seed=1",
               right_one(), Outputs(), {1, 2});
  EXPECT_EQ(trial.record.status, TrialStatus::passed) << trial.record.reason;
  for (const char* name : {"logprobs_nonpositive", "shift_invariance"}) {
    EXPECT_EQ(status_of_invariant(trial.record, name), "not_run") << name;
  }
}

TEST(Outputs, ALossAloneHasNoTokenChecks) {
  Outputs given;
  given.logprobs = given.entropy = given.vocab_range = given.owned_labels = false;
  given.metrics.emplace();
  for (const char* text : {kPartCase, "lens=5+8+1+3 vocab=24 hidden=8"}) {
    const bool hidden = std::string(text).find("hidden") != std::string::npos;
    const TrialOutcome trial =
        run_part(text, right_one(hidden ? "linear_ce" : "cp_local"), given, {2, 2});
    EXPECT_EQ(trial.record.status, TrialStatus::passed) << trial.record.reason;
    const std::vector<std::string> checks = check_names(trial.record.checks);
    EXPECT_THAT(checks, Contains("loss"));
    EXPECT_THAT(checks, Not(Contains("logprobs")));
    for (const std::string& name : checks) EXPECT_FALSE(name.starts_with("metric.")) << name;
    EXPECT_EQ(status_of_invariant(trial.record, "logprobs_nonpositive"), "not_run");
    EXPECT_EQ(status_of_invariant(trial.record, "shift_invariance"), "not_run");
    EXPECT_EQ(status_of_invariant(trial.record, "masked_rows_zero"), "passed");
    EXPECT_FALSE(trial.record.fingerprints.contains("logprobs"));
    ASSERT_TRUE(trial.outputs);
    EXPECT_TRUE(trial.outputs->loss);
    EXPECT_TRUE(trial.outputs->logprobs.empty());
    EXPECT_EQ(trial.outputs->grad_hidden.empty(), !hidden);
  }
}

struct WrongLogprob {
  std::size_t row = 0;
  double value = 0;
};
WrongLogprob wrong_logprob;

void write_wrong_logprob(const LossInputs&, LossOutputs* outputs, LossGradients*) {
  if (outputs)
    outputs->tokens.logprobs[wrong_logprob.row] = static_cast<float>(wrong_logprob.value);
}

TEST(Outputs, AnImpossibleLogprobIsOneBeyondTheBoundOfItsOwnRow) {
  TrialSetup setup = make_trial(prepare(make_problem(parse_case("lens=40 vocab=24 mask=all"))),
                                "cp_local", Grid());
  setup.implementation = std::make_shared<Spoiled>("cp_local", write_wrong_logprob);
  const auto bound_of = [&](std::size_t row) {
    return positive_logprob_bound(setup.truth->rows[row], serial_adds(setup));
  };
  std::size_t row = 0;
  while (row < 38 && bound_of(row + 1) < 1.3 * bound_of(row)) ++row;
  ASSERT_LT(row, 38u) << "no row has a much smaller bound than the next one";
  const auto status_at = [&](double bounds) {
    wrong_logprob = {row, bounds * bound_of(row)};
    return status_of_invariant(run_trial(setup, std::chrono::seconds(60)).record,
                               "logprobs_nonpositive");
  };
  EXPECT_EQ(status_at(0.9), "passed");
  EXPECT_EQ(status_at(1.15), "failed");
}

TEST(Outputs, WithoutGradientsTheirInvariantsAreNotRun) {
  Outputs given;
  given.gradients = false;
  for (const char* text : {kPartCase, "lens=5+8+1+3 vocab=24 hidden=8"}) {
    const bool hidden = std::string(text).find("hidden") != std::string::npos;
    const TrialOutcome trial =
        run_part(text, right_one(hidden ? "linear_ce" : "cp_local"), given, {2, 2});
    EXPECT_EQ(trial.record.status, TrialStatus::passed) << trial.record.reason;
    for (const std::string& name : check_names(trial.record.checks)) {
      EXPECT_FALSE(name.starts_with("grad_")) << name;
    }
    for (const char* name : {"every_element_written", "masked_rows_zero", "padded_vocab_zero",
                             "gradient_rows_sum_to_zero"}) {
      EXPECT_EQ(status_of_invariant(trial.record, name), "not_run") << name;
    }
    EXPECT_FALSE(trial.record.fingerprints.contains("grad_logits"));
    EXPECT_TRUE(trial.outputs->grad_logits.empty());
    EXPECT_TRUE(trial.outputs->grad_hidden.empty());
  }
}

TEST(Outputs, GivenOnesAreStillFoundWrong) {
  const auto spoiled = std::make_shared<Spoiled>(
      "cp_local", [](const LossInputs&, LossOutputs* outputs, LossGradients* gradients) {
        if (outputs != nullptr) outputs->result.loss *= 1.001;
        if (outputs != nullptr) outputs->result.metrics["ppl_avg"].amount *= 1.001;
        if (outputs != nullptr) outputs->tokens.logprobs[0] -= 1;
        if (gradients != nullptr) static_cast<float*>(gradients->logits)[0] += 1;
      });
  Outputs loss;
  loss.logprobs = loss.entropy = loss.vocab_range = loss.gradients = false;
  loss.metrics.emplace();
  EXPECT_EQ(failures_of(run_part(kPartCase, spoiled, loss, {1, 1}).record), "loss ");
  Outputs metric = loss;
  metric.loss = false;
  metric.metrics = std::set<std::string>{"ppl_avg", "entropy_avg"};
  EXPECT_EQ(failures_of(run_part(kPartCase, spoiled, metric, {1, 1}).record), "metric.ppl_avg ");
  Outputs tokens = loss;
  tokens.loss = false;
  tokens.logprobs = true;
  EXPECT_EQ(failures_of(run_part(kPartCase, spoiled, tokens, {1, 1}).record),
            "logprobs shift_invariance ");
  Outputs gradient = loss;
  gradient.loss = false;
  gradient.gradients = true;
  EXPECT_THAT(failures_of(run_part(kPartCase, spoiled, gradient, {1, 1}).record),
              ::testing::HasSubstr("grad_logits "));
}

TEST(Outputs, AMetricThatIsNotGivenMustNotBeThere) {
  TrialSetup setup = make_trial(prepare(make_problem(parse_case(kPartCase))), "cp_local", {});
  class Careless final : public LossImplementation {
   public:
    ImplementationTraits describe() const override {
      ImplementationTraits description = make_implementation("cp_local")->describe();
      description.outputs.metrics.emplace();
      return description;
    }
    Cost cost(const LossProblem& problem) const override {
      return make_implementation("cp_local")->cost(problem);
    }
    std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
      return make_implementation("cp_local")->plan(problem, context);
    }
  };
  setup.implementation = std::make_shared<Careless>();
  EXPECT_THAT(failures_of(run_trial(setup, std::chrono::seconds(60)).record),
              ::testing::HasSubstr("metric.ppl_avg "));
}

}  // namespace
}  // namespace lossgrid
