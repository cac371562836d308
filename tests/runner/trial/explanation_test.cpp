// SPDX-License-Identifier: Apache-2.0
// Causes that trials of wrong implementations name, and the measured scale of gradients.
#include <algorithm>
#include <cmath>
#include <ostream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/text.h"
#include "harness/runner/explain/explainer.h"
#include "harness/runner/job/problem_cache.h"
#include "harness/runner/trial/trial.h"
#include "spoiled.h"

namespace lossgrid {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TrialSetup explained_setup(const std::string& case_text, const std::string& implementation,
                           const std::string& grid) {
  const PreparedProblem prepared = prepare(make_problem(parse_case(case_text)));
  return make_trial(prepared, implementation, parse_grid(grid));
}

TrialRecord explained_trial(const std::string& case_text, const std::string& implementation,
                            const std::string& grid) {
  const TrialSetup setup = explained_setup(case_text, implementation, grid);
  const Ranks ranks;
  TrialOutcome trial = run_trial(setup, std::chrono::seconds(60), ranks);
  Explainer(std::chrono::seconds(60), ranks)
      .explain({setup.problem->spec, implementation, setup.grid}, trial);
  return trial.record;
}

struct Wrong {
  const char* mutant;
  const char* grid;
  const char* case_text;
  const char* sentence;  // a part of the explanation
};

void PrintTo(const Wrong& wrong, std::ostream* out) {
  *out << wrong.mutant;
}

class Explanations : public testing::TestWithParam<Wrong> {};

TEST_P(Explanations, NameTheCause) {
  const Wrong& wrong = GetParam();
  const TrialRecord record =
      explained_trial(wrong.case_text, std::string("mutant/") + wrong.mutant, wrong.grid);
  EXPECT_EQ(record.status, TrialStatus::failed) << record.reason;
  EXPECT_THAT(join(record.explanation, "\n"), HasSubstr(wrong.sentence));
}

const Wrong kWrong[] = {
    {"gradient_times_cp", "tp1cp2", "lens=15+18 vocab=24 mask=all",
     "grad_logits is 2.000 x the truth, which cp = 2 would explain: a sum over CP in the backward"},
    {"gradient_over_cp", "tp2cp4", "lens=15+18 vocab=24 mask=all",
     "which 1/cp = 0.25 would explain"},
    {"gather_detached", "tp1cp2", "lens=15+18 vocab=24 mask=all",
     "grad_logits is 0: nothing flows"},
    {"gradient_times_2", "tp1cp1", "lens=15+18 vocab=24 dtype=bf16",
     "grad_logits is 2.000 x the truth"},
    {"gradient_times_1.02", "tp1cp1", "lens=15 vocab=24 dtype=bf16", "grad_logits is 1.020 x the"},
    {"gradient_times_1.004", "tp1cp1", "lens=15 vocab=24 dtype=bf16", "grad_logits is 1.004"},
    {"divided_by_microbatches", "tp1cp1", "lens=15+18+7+9 vocab=24 microbatches=4",
     "loss and grad_logits are 0.250 x the truth, which 1/n_mb = 0.25 would explain"},
    {"mean_of_rank_means", "tp1cp2", "lens=15+18 vocab=24",
     "in inverse proportion to the valid tokens of each: a mean over the own tokens of each?"},
    {"microbatch_denominator", "tp1cp1", "lens=15+18+7+9 vocab=24 microbatches=2",
     "from microbatch to microbatch, in inverse proportion to the valid tokens"},
    {"no_softmax_term", "tp1cp1", "lens=15+18 vocab=24", "wrong elements of grad_logits are 0"},
    {"max_not_reduced", "tp2cp1", "lens=15+18 vocab=24",
     "the all-reduce of the maximum over TP is missing?"},
    {"sum_not_reduced", "tp2cp1", "lens=15+18 vocab=24",
     "that of the own vocabulary shard: its all-reduce over TP is missing?"},
    {"target_not_rolled", "tp1cp1", "lens=15+18 vocab=24 mask=all",
     "the row's own token: labels are not shifted?"},
    {"roll_after_split", "tp1cp2", "lens=15+22 vocab=240 mask=all",
     "the token in the rank's next row: labels are shifted after the split?"},
    {"roll_inside_chunks", "tp1cp2", "lens=15+22 vocab=24 mask=all",
     "if the row predicted nothing: its label is lost?"},
    {"gather_without_unsplit", "tp1cp2", "lens=15+22 vocab=240 mask=all",
     "for another row: rows are in another order?"},
    {"mask_multiplies", "tp1cp1", "lens=15+22 vocab=24",
     "no NaN where masked rows hold plausible numbers: values of masked rows"},
    {"kl_gradient_of_score", "tp1cp1",
     "objective=clipped_pg objective.kl_gradient=value lens=15+22 vocab=24",
     "would be right with objective.kl_gradient=score"},
    {"linear_weight_grad_in_bf16", "tp2cp1", "lens=15+18 vocab=24 mask=all hidden=16",
     "grad_weight holds numbers of bfloat16 in float32"},
    {"linear_weight_grad_without_temperature", "tp1cp1",
     "lens=15+18 vocab=24 hidden=16 temperature=0.5",
     "grad_weight is 0.500 x the truth, which temperature = 0.5 would explain"},
};

INSTANTIATE_TEST_SUITE_P(Mutants, Explanations, testing::ValuesIn(kWrong), [](const auto& wrong) {
  std::string name = wrong.param.mutant;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

TEST(Explanation, IsEmptyWithAScaleOfOneForATrialThatPasses) {
  for (const char* case_text : {"lens=15+18 vocab=24", "lens=15+18 vocab=24 hidden=16"}) {
    const bool hidden = std::string(case_text).find("hidden") != std::string::npos;
    for (const char* grid : {"tp1cp1", "tp2cp2", "tp2cp1dp2"}) {
      const TrialRecord record = explained_trial(case_text, hidden ? "linear_ce" : "fused", grid);
      ASSERT_EQ(record.status, TrialStatus::passed) << record.reason;
      EXPECT_THAT(record.explanation, IsEmpty());
      EXPECT_EQ(record.gradient_scale.size(), hidden ? 2u : 1u);
      for (const auto& [gradient, scale] : record.gradient_scale) {
        EXPECT_NEAR(scale, 1, 1e-6) << gradient;
      }
    }
  }
}

TEST(GradientScale, IsMeasuredOverRanksAndMicrobatches) {
  const TrialRecord record = explained_trial("lens=15+18+7+9 vocab=24 microbatches=2",
                                             "mutant/gradient_times_1.02", "tp2cp2dp2");
  EXPECT_NEAR(record.gradient_scale.at("grad_logits"), 1.02, 1e-6);
}

TEST(GradientScale, IsMissingForATruthOfZeroOrANan) {
  EXPECT_THAT(explained_trial("lens=4 vocab=24 mask=0000", "fused", "tp1cp1").gradient_scale,
              IsEmpty());
  TrialSetup setup = explained_setup("lens=15+18 vocab=24 mask=all", "cp_local", "tp1cp1");
  setup.implementation = std::make_shared<Spoiled>(
      "cp_local", [](const LossInputs&, LossOutputs*, LossGradients* gradients) {
        if (gradients) static_cast<float*>(gradients->logits)[3] = std::nanf("");
      });
  const TrialRecord record = run_trial(setup, std::chrono::seconds(60)).record;
  EXPECT_THAT(record.gradient_scale, IsEmpty());
  EXPECT_THAT(join(record.explanation, "\n"),
              HasSubstr("grad_logits has NaN in 1 element of 1 row"));
}

TEST(Explanation, OneTrialAloneNamesNoCauseOfAFactor) {
  TrialSetup setup = explained_setup("lens=6 vocab=24 mask=all", "cp_local", "tp2cp1");
  setup.implementation = std::make_shared<Spoiled>(
      "cp_local", [](const LossInputs&, LossOutputs*, LossGradients* gradients) {
        if (!gradients) return;
        auto* out = static_cast<float*>(gradients->logits);
        for (int k = 0; k < 5 * 12; ++k) out[k] *= 5;
      });
  const TrialRecord record = run_trial(setup, std::chrono::seconds(60)).record;
  EXPECT_THAT(join(record.explanation, "\n"),
              AllOf(HasSubstr("grad_logits is 5.000 x the truth"), Not(HasSubstr("explain"))));
}

/// Entropies that the loss alone needs are no output of the trial.
TEST(Explanation, StandsBesideAnEntropyBonusWithoutStatistics) {
  const TrialRecord record = explained_trial(
      "objective=clipped_pg objective.entropy_coefficient=0.05 lens=9+5 vocab=24 statistics=false",
      "mutant/gradient_times_2", "tp1cp1");
  EXPECT_THAT(join(record.explanation, "\n"), HasSubstr("grad_logits is 2.000 x the truth"));
}

TEST(Explanation, NamesMinusInfinityBesideNan) {
  for (const int vocab : {24, 3}) {  // of 3 ids the first alone is masked
    TrialSetup setup =
        explained_setup(fmt::format("lens=15+18 vocab={} mask=all values=masked_vocab", vocab),
                        "cp_local", "tp1cp1");
    setup.implementation = std::make_shared<Spoiled>(
        "cp_local", [vocab](const LossInputs& inputs, LossOutputs*, LossGradients* gradients) {
          if (!gradients) return;
          // Gradients of 0 * inf; rows that predict nothing stay as they are.
          const auto* logits = static_cast<const float*>(inputs.logits);
          auto* out = static_cast<float*>(gradients->logits);
          for (int k = 0; k < 33 * vocab; ++k) {
            const bool is_trained = k / vocab != 14 && k / vocab != 32;
            if (is_trained && std::isinf(logits[k])) out[k] = 0.0f * logits[k];
          }
        });
    const TrialRecord record = run_trial(setup, std::chrono::seconds(60)).record;
    EXPECT_THAT(join(record.explanation, "\n"),
                HasSubstr("rows: those with -inf logits and no others; 0 * inf"))
        << vocab;
  }
}

}  // namespace
}  // namespace lossgrid
