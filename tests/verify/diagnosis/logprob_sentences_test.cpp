// SPDX-License-Identifier: Apache-2.0
// Sentences about log-probabilities, of the explanation of a failed trial.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "verify/diagnosis/explained_facts.h"

namespace lossgrid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Explanation, NamesTheMistakeThatMakesTheLogprobs) {
  FailedLogprobs failed;
  failed.count = failed.differences = 12;
  failed.mistakes[0] = {12, 12};
  failed.mistakes[3] = {12, 2};
  EXPECT_THAT(
      explain(with_logprobs(failed)),
      ElementsAre("of 12 wrong log-probabilities where it would show, 12 are what they would be if "
                  "each tp rank's sum of exponentials were taken with its own maximum: the "
                  "all-reduce of the maximum over TP is missing?"));
  failed.mistakes[0] = {12, 6};
  failed.mistakes[4] = {12, 5};  // for the rest
  EXPECT_EQ(explain(with_logprobs(failed)).size(), 2u);
  failed.mistakes[0] = {12, 8};  // all but 4, which are fewer than 5
  EXPECT_EQ(explain(with_logprobs(failed)).size(), 1u);
  failed.mistakes[0] = {12, 3};  // a quarter of them
  failed.mistakes[4] = {};
  EXPECT_THAT(explain(with_logprobs(failed)), ElementsAre(HasSubstr("3 are what they")));
  failed.mistakes[0] = {12, 2};
  EXPECT_THAT(explain(with_logprobs(failed)), ElementsAre(HasSubstr("are off by")));
  failed.mistakes[0] = {12, 4};
  failed.mistakes[4] = {12, 7};  // more than the first
  EXPECT_THAT(explain(with_logprobs(failed)),
              ElementsAre(HasSubstr("it would show, 7 are"), HasSubstr("it would show, 4 are")));
}

TEST(Explanation, NamesNllThatIsDeclaredAsLogprobs) {
  FailedLogprobs failed;
  failed.count = failed.differences = 5;
  failed.mistakes[9] = {5, 5};
  EXPECT_THAT(explain(with_logprobs(failed), nullptr, external())[0],
              HasSubstr("negative log-likelihoods? returns=\"nll\" would declare it"));
  EXPECT_THAT(explain(with_logprobs(failed))[0], Not(HasSubstr("declare")));
}

TEST(Explanation, DescribesLogprobsThatNoMistakeMakes) {
  FailedLogprobs failed;
  failed.count = failed.differences = 3;
  failed.smallest_difference = 0.69310;
  failed.largest_difference = 0.69312;
  failed.positive = 1;
  EXPECT_THAT(explain(with_logprobs(failed)),
              ElementsAre(HasSubstr("log-probabilities are off by 0.6931 in every wrong row"),
                          HasSubstr("1 log-probability is above 0")));
  failed.smallest_difference = 0.5;
  failed.positive = 0;
  EXPECT_THAT(explain(with_logprobs(failed)), IsEmpty());
  failed.smallest_difference = -10.005;  // the same within a thousandth of its size
  failed.largest_difference = -9.9985;
  EXPECT_THAT(explain(with_logprobs(failed)), ElementsAre(HasSubstr("are off by -9.998 in")));
  failed.smallest_difference = 0.69310;
  failed.largest_difference = 0.69312;
  failed.count = failed.differences = 2;  // two may agree by chance
  EXPECT_THAT(explain(with_logprobs(failed)), IsEmpty());
}

TEST(Explanation, NamesTheRanksWhereLogprobsAreWrong) {
  FailedLogprobs wrong;
  wrong.count = 4;
  wrong.not_written = 3;
  wrong.differences = 1;
  wrong.largest_difference = 0.5;
  FailureFacts facts;
  for (int cp = 0; cp < 2; ++cp) {
    for (int tp = 0; tp < 3; ++tp) {
      facts.logprobs.push_back({{tp, cp, 0, 0}, tp > 0 ? wrong : FailedLogprobs()});
    }
  }
  EXPECT_THAT(explain(facts), ElementsAre("12 log-probabilities are not written",
                                          "log-probabilities are wrong on tp ranks 1 and 2 only"));
  for (LogprobPart& part : facts.logprobs) part.failed = {};
  facts.logprobs[4].failed.count = 1;
  facts.logprobs[4].failed.not_written = 1;
  EXPECT_THAT(explain(facts),
              ElementsAre("1 log-probability is not written",
                          "log-probabilities are wrong on tp rank 1, cp rank 1 only"));
}

}  // namespace
}  // namespace lossgrid
