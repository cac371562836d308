// SPDX-License-Identifier: Apache-2.0
// Sentences about a NaN, of the explanation of a failed trial.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "verify/diagnosis/explained_facts.h"

namespace lossgrid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Explanation, ANanIsNotAMultiple) {
  FailureFacts facts = facts_of({part_of({}, 2)}, sizes_of(1, 2, 1));
  GradientFacts& gradient = facts.gradients[0];
  gradient.parts[0].failed.add(kNotANumber, 1, kNotANumber, DType::f32);
  gradient.parts[0].failed.add_nan_row(4);
  gradient.sums.out_truth = kNotANumber;
  EXPECT_THAT(explain(facts), ElementsAre("grad_logits has NaN in 1 element of 1 row"));
  facts.minus_inf_rows = {3, 4};
  EXPECT_THAT(
      explain(facts),
      ElementsAre("grad_logits has NaN in 1 element of 1 row: all of them with -inf logits; "
                  "0 * inf, or inf - inf?"));
  facts.minus_inf_rows = {4};
  EXPECT_THAT(
      explain(facts),
      ElementsAre("grad_logits has NaN in 1 element of 1 row: those with -inf logits and no "
                  "others; 0 * inf, or inf - inf?"));
  facts.minus_inf_rows = {5};
  EXPECT_THAT(explain(facts), ElementsAre("grad_logits has NaN in 1 element of 1 row"));
  gradient.parts[0].failed.add_nan_row(5);
  gradient.parts[0].failed.add_nan_row(7);
  EXPECT_THAT(explain(facts),
              ElementsAre("grad_logits has NaN in 1 element of 3 rows: 1 with -inf logits and 2 "
                          "without; the NaN of a row reaches others?"));
  gradient.not_written = true;  // an invariant states that
  EXPECT_THAT(explain(facts), IsEmpty());
}

TEST(Explanation, NamesTheRanksWhoseGradientHasANan) {
  FailureFacts facts = facts_of({part_of({.cp = 0}, 1), part_of({.cp = 1}, 1)});
  facts.gradients[0].parts[1].failed.add(kNotANumber, 1, kNotANumber, DType::f32);
  facts.gradients[0].parts[1].failed.add_nan_row(4);
  EXPECT_THAT(explain(facts),
              ElementsAre("grad_logits has NaN in 1 element of 1 row on cp rank 1 only"));
}

TEST(Explanation, CountsTheRowsWhoseLogprobIsNan) {
  FailureFacts facts;
  facts.logprobs = {{{.cp = 0}, {}}, {{.cp = 1}, {}}};
  EXPECT_THAT(explain(facts), IsEmpty());
  facts.logprobs[1].failed.count = 2;
  facts.logprobs[1].failed.nan_rows = {4, 9};
  EXPECT_THAT(explain(facts), ElementsAre("log-probabilities are NaN in 2 rows on cp rank 1 only"));
  facts.minus_inf_rows = {4, 9};
  EXPECT_THAT(explain(facts), ElementsAre(HasSubstr("those with -inf logits and no others")));
  facts.minus_inf_rows = {4, 7, 9};
  EXPECT_THAT(explain(facts), ElementsAre(HasSubstr("all of them with -inf logits")));
}

TEST(HasNan, InLogprobsOrInAGradient) {
  FailureFacts facts = facts_of({part_of({}, 1)});
  facts.logprobs = {{{}, {}}};
  EXPECT_FALSE(has_nan(facts));
  facts.logprobs[0].failed.nan_rows = {4};
  EXPECT_TRUE(has_nan(facts));
  facts.logprobs.clear();
  facts.gradients[0].parts[0].failed.nan = 1;
  EXPECT_TRUE(has_nan(facts));
}

TEST(Explanation, NamesANanInTheLossAlone) {
  FailureFacts facts = with_logprobs({});
  facts.loss = LossFacts{kNotANumber, 3};
  EXPECT_THAT(explain(facts),
              ElementsAre("loss is NaN, and no log-probability that has a truth is wrong"));
  facts.logprobs[0].failed.count = 1;
  EXPECT_THAT(explain(facts), IsEmpty());
}

TEST(Explanation, OtherTrialsShowTheCauseOfANan) {
  FailureFacts facts;
  facts.loss = LossFacts{kNotANumber, 3};
  facts.untrained = {{.cp = 1}};
  const auto explained = [&](bool without_poison, bool second_size) {
    facts.nan_trials = NanTrials{without_poison, second_size};
    const std::vector<std::string> sentences = explain(facts);
    return sentences.size() < 2 ? "" : sentences[1];
  };
  EXPECT_THAT(explained(false, false), HasSubstr("values of masked rows"));
  EXPECT_THAT(explained(true, false),
              HasSubstr("cp rank 1 of dp rank 0 in microbatch 0 has none: 0 / 0?"));
  EXPECT_EQ(explained(true, true), "");
  facts.has_minus_inf_padding = true;
  EXPECT_THAT(explained(true, false), HasSubstr("vocab_split=\"padded:-inf\""));
  facts.has_minus_inf_padding = false;
  facts.untrained.clear();
  EXPECT_EQ(explained(true, false), "");
}

}  // namespace
}  // namespace lossgrid
