// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/diagnosis/diagnosis.h"

#include <regex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "verify/diagnosis/explained_facts.h"

namespace lossgrid {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Explanation, IsEmptyWithoutFacts) {
  EXPECT_THAT(explain({}), IsEmpty());
  EXPECT_THAT(explain(facts_of({})), IsEmpty());
}

/// Explains a gradient with a factor that has another value in a second size.
std::vector<std::string> explain_factor(double factor, const TrialSizes& sizes, double second,
                                        const TrialSizes& second_sizes,
                                        const DeclaredWords& declared = {}) {
  const FailureFacts there = facts_of({part_of({}, second)}, second_sizes);
  return explain(facts_of({part_of({}, factor)}, sizes), &there, declared);
}

TEST(Explanation, NamesTheFactorOfAGradient) {
  EXPECT_THAT(
      explain_factor(2, sizes_of(1, 2, 1), 3, sizes_of(1, 3, 1)),
      ElementsAre("grad_logits is 2.000 x the truth, which cp = 2 would explain: a sum over "
                  "CP in the backward of a gather, or a loss that is not divided by cp?"));
  EXPECT_THAT(explain_factor(0.25, sizes_of(1, 1, 4), 1.0 / 3, sizes_of(1, 1, 3)),
              ElementsAre(HasSubstr("0.250 x the truth, which 1/n_mb = 0.25 would explain: ")));
}

TEST(Explanation, AFactorHasACauseOnlyIfASecondSizeAgrees) {
  const std::string alone = "grad_logits is 2.000 x the truth";
  EXPECT_THAT(explain(facts_of({part_of({}, 2)}, sizes_of(1, 2, 1))), ElementsAre(alone));
  // Twice the truth there too: no size.
  EXPECT_THAT(explain_factor(2, sizes_of(1, 2, 1), 2, sizes_of(1, 3, 1)),
              ElementsAre(alone + ", as it is with other sizes: a constant factor?"));
  EXPECT_THAT(explain_factor(2, sizes_of(1, 2, 1), -3, sizes_of(1, 3, 1)), ElementsAre(alone));
  FailureFacts there = facts_of({part_of({}, 3)}, sizes_of(1, 3, 1));
  there.gradients[0].name = "grad_hidden";
  EXPECT_THAT(explain(facts_of({part_of({}, 2)}, sizes_of(1, 2, 1)), &there), ElementsAre(alone));
}

TEST(Explanation, ASecondSizeSeparatesEqualFactors) {
  TrialSizes sizes = sizes_of(2, 2, 1);
  sizes.sequences = 4;
  sizes.temperature = 2;
  TrialSizes second = sizes_of(5, 3, 1);
  second.sequences = 7;
  second.temperature = 1.3;
  const auto explained = [&](double factor) {
    return explain_factor(4, sizes, factor, second).at(0);
  };
  EXPECT_THAT(explained(25), HasSubstr("which dp^2 = 4 would explain: added up over DP twice?"));
  EXPECT_THAT(explained(9), HasSubstr("which cp^2 = 4 would explain"));
  EXPECT_THAT(explained(15), HasSubstr("which dp*cp = 4 would explain"));
  EXPECT_THAT(explained(7), HasSubstr("which sequences = 4 would explain"));
  EXPECT_THAT(explained(1.69), HasSubstr("which temperature^2 = 4 would explain"));
  EXPECT_THAT(explained(4), HasSubstr("4.000 x the truth, as it is with other sizes"));
  EXPECT_THAT(explained(5.5), HasSubstr("4.000 x the truth"));
  EXPECT_THAT(explained(5.5), Not(HasSubstr("?")));
}

TEST(Explanation, NamesNoneOfTwoFactorsThatFit) {
  EXPECT_THAT(explain_factor(2, sizes_of(2, 2, 1), 3, sizes_of(3, 3, 1)),
              ElementsAre("grad_logits is 2.000 x the truth"));
  // A grid that stays as it is makes no constant of its sizes.
  EXPECT_THAT(explain_factor(2, sizes_of(2, 2, 1), 2, sizes_of(2, 2, 1)),
              ElementsAre("grad_logits is 2.000 x the truth"));
}

TEST(Explanation, NamesProducts) {
  EXPECT_THAT(explain_factor(6, sizes_of(3, 2, 1), 20, sizes_of(5, 4, 1), external()),
              ElementsAre("grad_logits is 6.000 x the truth, which dp*cp = 6 would explain; "
                          "scale=\"dp*cp\" would declare it"));
  EXPECT_THAT(explain_factor(0.25, sizes_of(1, 1, 4), 0.2, sizes_of(1, 1, 5), external()),
              ElementsAre(HasSubstr("scale=\"1/n_mb\" would declare it")));
}

TEST(Explanation, AFactorOfTheWrongElementsAloneIsNotThatOfTheGradient) {
  FailureFacts facts = facts_of({part_of({}, 1.05)});
  facts.gradients[0].sums.add_element(DType::f32, 2.56, 2.56, 2.56, 0, 0);  // right: 1.0495 of all
  EXPECT_THAT(explain(facts),
              ElementsAre("all 12 wrong elements of grad_logits are 1.050 x the truth"));
}

TEST(Explanation, NamesTheDeclarationOfImplementationsFromOutsideOnly) {
  const TrialSizes two = sizes_of(1, 2, 1, 4);
  const TrialSizes three = sizes_of(1, 3, 1, 5);
  EXPECT_THAT(explain_factor(2, two, 3, three, external())[0],
              HasSubstr("? gradient=\"summed_over_cp\" or scale=\"cp\" would declare it"));
  EXPECT_THAT(explain_factor(2, two, 3, three)[0], Not(HasSubstr("declare")));
  // No declaration makes the sign or a sum over TP right.
  EXPECT_THAT(explain_factor(-2, two, -3, three, external())[0], Not(HasSubstr("declare")));
  EXPECT_THAT(explain_factor(4, two, 5, three, external())[0], Not(HasSubstr("declare")));
}

TEST(Explanation, OffersNoWordThatIsDeclared) {
  const TrialSizes two = sizes_of(1, 2, 1);
  const TrialSizes three = sizes_of(1, 3, 1);
  DeclaredWords declared = external();
  declared.may_sum_over_cp = false;
  EXPECT_THAT(explain_factor(2, two, 3, three, declared)[0],
              AllOf(HasSubstr("? scale=\"cp\" would"), Not(HasSubstr("summed_over_cp"))));
  declared.scale.cp = 1;
  EXPECT_THAT(explain_factor(2, two, 3, three, declared)[0], HasSubstr("? scale=\"cp*cp\" would"));
}

/// Every scale that a hint offers is a word that a declaration may have, and none that it has.
TEST(Explanation, OffersScalesThatAreAcceptedAndNew) {
  const std::regex hint("scale=\"([^\"]*)\"");
  const TrialSizes second = sizes_of(11, 13, 17);
  std::set<std::string> seen;
  for (const ScaleFactor& factor : {ScaleFactor{}, {1, 0, 0}, {0, -1, 2}, {4, 4, 4}, {-4, 0, 0}}) {
    DeclaredWords declared = external();
    declared.scale = factor;
    for (const TrialSizes& sizes : {sizes_of(2, 5, 7), sizes_of(1, 2, 1), sizes_of(3, 1, 2)}) {
      for (int e = 0; e < 27; ++e) {
        const ScaleFactor wrong{e % 3 - 1, e / 3 % 3 - 1, e / 9 - 1};
        for (const std::string& text : explain_factor(
                 wrong.value(sizes.scale), sizes, wrong.value(second.scale), second, declared)) {
          for (std::sregex_iterator at(text.begin(), text.end(), hint), end; at != end; ++at) {
            const std::string word = (*at)[1];
            EXPECT_NO_THROW(EXPECT_FALSE(parse_scale(word, "scale") == factor)) << text;
            seen.insert(word);
          }
        }
      }
    }
  }
  EXPECT_THAT(seen, ::testing::IsSupersetOf({"dp", "1/dp", "dp/cp", "1/(dp*cp)", "dp*dp"}));
}

TEST(Explanation, AScaleDeclaresNoFactorOfTheGradientAlone) {
  const TrialSizes two = sizes_of(2, 2, 1);
  const TrialSizes three = sizes_of(5, 3, 1);
  EXPECT_THAT(explain_factor(2, two, 3, three, external(true))[0],
              AllOf(HasSubstr("? gradient=\"summed_over_cp\" would"), Not(HasSubstr("scale="))));
  EXPECT_THAT(explain_factor(2, two, 5, three, external(true))[0], Not(HasSubstr("declare")));
  FailureFacts facts = facts_of({part_of({}, 2)}, two);
  facts.loss = LossFacts{2, 1};
  FailureFacts second = facts_of({part_of({}, 3)}, three);
  second.loss = LossFacts{3, 1};
  EXPECT_THAT(explain(facts, &second, external(true)),
              ElementsAre(AllOf(HasSubstr("loss and grad_logits are 2.000 x the truth"),
                                HasSubstr("? scale=\"cp\" would declare it"))));
}

TEST(Explanation, AFactorThatNothingMakesIsStatedAlone) {
  EXPECT_THAT(explain(facts_of({part_of({}, 1.02)}, sizes_of(2, 2, 2))),
              ElementsAre("grad_logits is 1.020 x the truth"));
  EXPECT_THAT(explain(facts_of({part_of({}, 2.004)}, sizes_of(1, 2, 1))),
              ElementsAre("grad_logits is 2.004 x the truth"));
  EXPECT_THAT(explain(facts_of({part_of({}, 1.0042)}, sizes_of(1, 2, 1))),
              ElementsAre("grad_logits is 1.0042 x the truth"));  // not 1.004
  EXPECT_THAT(explain(facts_of({part_of({}, 999.2)}, sizes_of(1, 2, 1))),
              ElementsAre("grad_logits is 999.200 x the truth"));
  EXPECT_THAT(explain(facts_of({part_of({}, 1000.2)}, sizes_of(1, 2, 1))),
              ElementsAre("grad_logits is 1000 x the truth"));
}

TEST(Explanation, NamesTheOtherSignAndZero) {
  EXPECT_THAT(explain(facts_of({part_of({}, -1)})),
              ElementsAre("grad_logits is -1.000 x the truth: the other sign"));
  EXPECT_THAT(explain(facts_of({part_of({}, 0)})),
              ElementsAre("grad_logits is 0: nothing flows back?"));
}

TEST(Explanation, LossAndGradientWithOneFactorAreOneSentence) {
  FailureFacts facts = facts_of({part_of({}, 0.5)}, sizes_of(1, 1, 2));
  FailureFacts second = facts_of({part_of({}, 0.2)}, sizes_of(1, 1, 5));
  facts.loss = LossFacts{1.5, 3};
  second.loss = LossFacts{1, 5};
  EXPECT_THAT(explain(facts, &second),
              ElementsAre("loss and grad_logits are 0.500 x the truth, which 1/n_mb = 0.5 would "
                          "explain: a division by the number of microbatches that is not undone?"));
  facts.loss->got = 6;
  second.loss->got = 25;
  EXPECT_THAT(explain(facts, &second),
              ElementsAre(HasSubstr("loss is 2.000 x the truth, which n_mb = 2 would explain"),
                          HasSubstr("grad_logits is 0.500 x the truth, which 1/n_mb")));
  facts.gradients = facts_of({part_of({}, 1.02)}).gradients;  // a factor that nothing makes
  facts.loss->got = 3.06;
  EXPECT_THAT(explain(facts, &second), ElementsAre("loss and grad_logits are 1.020 x the truth"));
  facts.loss->got = 3.3;  // some number
  facts.gradients = facts_of({part_of({}, 0.5)}).gradients;
  EXPECT_THAT(explain(facts, &second), ElementsAre(HasSubstr("grad_logits is 0.500")));
}

TEST(Explanation, NamesASumInPlaceOfAMean) {
  FailureFacts facts;
  facts.sizes.valid_tokens = 14;
  facts.loss = LossFacts{28, 2};
  FailureFacts second;
  second.sizes.valid_tokens = 19;
  second.loss = LossFacts{38, 2};
  EXPECT_THAT(
      explain(facts, &second),
      ElementsAre("loss is 14.000 x the truth, which valid_tokens = 14 would explain: a sum "
                  "over the valid tokens in the place of their mean?"));
  EXPECT_THAT(explain(facts), IsEmpty());  // any number is a multiple of another
}

TEST(Explanation, NamesADivisionByAllRows) {
  FailureFacts facts = facts_of({part_of({}, 0.5)});
  facts.sizes.valid_tokens = 14;
  facts.sizes.rows = facts.sizes.padded_rows = 28;
  FailureFacts second = facts_of({part_of({}, 0.475)});
  second.sizes.valid_tokens = 19;
  second.sizes.rows = 40;
  second.sizes.padded_rows = 48;
  EXPECT_THAT(explain(facts, &second),
              ElementsAre("grad_logits is 0.500 x the truth, which valid_tokens/rows = 0.5 would "
                          "explain: divided by all rows in the place of the valid ones?"));
}

TEST(Explanation, NoiseIsNoSign) {
  FailureFacts facts = facts_of({part_of({}, 1)});
  facts.gradients[0] = {"grad_logits", true, true};
  GradientPart part;
  for (int k = 0; k < 40; ++k) {
    const double want = 1 + 0.01 * k;
    const double got = 1e-3 * (k % 2 == 0 ? 1 : -1.02);  // nothing to do with `want`
    part.sums.add_element(DType::f32, got, want, want, 0, 0);
    part.failed.add(got, want, got, DType::f32);
  }
  facts.gradients[0].sums = part.sums;
  facts.gradients[0].parts = {part};
  EXPECT_THAT(explain(facts), IsEmpty());
}

TEST(Explanation, NamesTheRankWhoseShardIsZero) {
  const auto place = [](int tp, int cp) { return PartPlace{tp, cp, 0, 0}; };
  EXPECT_THAT(explain(facts_of({part_of(place(0, 0), 1), part_of(place(1, 0), 0),
                                part_of(place(0, 1), 1), part_of(place(1, 1), 0)},
                               sizes_of(1, 2, 1, 2))),
              ElementsAre("grad_logits is 0 x the truth on tp rank 1, 1 x the truth on tp rank 0"));
}

TEST(Explanation, MeansOverTheOwnTokensShowInTheirProportion) {
  const auto place = [](int cp) { return PartPlace{0, cp, 0, 0}; };
  EXPECT_THAT(explain(facts_of({part_of(place(0), 2.25, 8), part_of(place(1), 1.8, 10)},
                               sizes_of(1, 2, 1))),
              ElementsAre("grad_logits is 1.800 to 2.250 x the truth from rank to rank, in inverse "
                          "proportion to the valid tokens of each: a mean over the own tokens of "
                          "each?"));
  EXPECT_THAT(
      explain(facts_of({part_of(place(0), 2.25, 8), part_of(place(1), 1.8, 9)}, sizes_of(1, 2, 1))),
      IsEmpty());
}

TEST(Explanation, ElementsThatAreZeroAreCounted) {
  FailureFacts facts = facts_of({part_of({}, 1)});
  for (int k = 0; k < 9; ++k) facts.gradients[0].parts[0].failed.add(0, 2, 0, DType::f32);
  facts.gradients[0].parts[0].failed.add(1.7, 2, 1.7, DType::f32);
  EXPECT_THAT(explain(facts), ElementsAre("9 of 10 wrong elements of grad_logits are 0"));
}

TEST(Explanation, AFactorOfTheWrongElementsNeedsEightOfThem) {
  for (const int wrong : {7, 8}) {
    FailureFacts facts = facts_of({part_of({}, 1)});  // the sum over all has no factor
    for (int k = 0; k < wrong; ++k) {
      const double want = 1.5 + 0.1 * k;
      facts.gradients[0].parts[0].failed.add(3 * want, want, 3 * want, DType::f32);
    }
    const std::vector<std::string> sentences = explain(facts);
    if (wrong == 7) {
      EXPECT_THAT(sentences, IsEmpty());
    } else {
      EXPECT_THAT(sentences,
                  ElementsAre("all 8 wrong elements of grad_logits are 3.000 x the truth"));
    }
  }
}

TEST(Explanation, NamesBfloat16InAFloat32Gradient) {
  FailureFacts facts = facts_of({part_of({}, 1)});
  FailedElements& failed = facts.gradients[0].parts[0].failed;
  for (int k = 0; k < 8; ++k) {
    const double want = 0.3 + 0.1 * k + 1e-5;
    const double got = round_to(DType::bf16, want);
    failed.add(got, want, got, DType::f32);
  }
  EXPECT_THAT(explain(facts),
              ElementsAre(HasSubstr("grad_logits holds numbers of bfloat16 in float32, in all 8")));
  failed.add(0.1f, 0.3, 0.1f, DType::f32);
  EXPECT_THAT(explain(facts), IsEmpty());
}

}  // namespace
}  // namespace lossgrid
