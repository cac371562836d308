// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/scale_suspects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lossgrid {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TrialSizes sizes() {
  TrialSizes all;
  all.scale = {2, 3, 5};  // dp, cp, n_mb
  all.tp = 7;
  all.valid_tokens = 11;
  all.sequences = 4;
  all.temperature = 0.7;
  return all;
}

std::vector<std::string> names_of(double factor, const TrialSizes& of = sizes()) {
  std::vector<std::string> names;
  for (const ScaleSuspect& suspect : scale_suspects(factor, of)) names.push_back(suspect.name);
  return names;
}

TEST(ScaleSuspects, EverySizeAndItsInverse) {
  EXPECT_THAT(names_of(2), ElementsAre("dp"));
  EXPECT_THAT(names_of(1.0 / 3), ElementsAre("1/cp"));
  EXPECT_THAT(names_of(5), ElementsAre("n_mb"));
  EXPECT_THAT(names_of(-7), ElementsAre("tp"));
  EXPECT_THAT(names_of(11), ElementsAre("valid_tokens"));
  EXPECT_THAT(names_of(0.25), ElementsAre("1/sequences"));
  EXPECT_THAT(names_of(0.7), ElementsAre("temperature"));
}

TEST(ScaleSuspects, Products) {
  EXPECT_THAT(names_of(6), ElementsAre("dp*cp"));
  EXPECT_THAT(names_of(2.0 / 15), ElementsAre("dp/(cp*n_mb)"));
  EXPECT_EQ(scale_suspects(6, sizes())[0].scale_word, "dp*cp");
  EXPECT_EQ(scale_suspects(7, sizes())[0].scale_word, "");
}

TEST(ScaleSuspects, AllOfTheSimplestThatFit) {
  TrialSizes twos;
  twos.scale = {2, 2, 2};
  EXPECT_THAT(names_of(2, twos), ElementsAre("cp", "dp", "n_mb"));
  EXPECT_THAT(names_of(4, twos), ElementsAre("dp*cp", "cp*n_mb", "dp*n_mb"));
  EXPECT_THAT(names_of(1, twos), IsEmpty());  // though dp/cp is 1
  twos.valid_tokens = 4;                      // one size comes before a product
  EXPECT_THAT(names_of(4, twos), ElementsAre("valid_tokens"));
  twos.sequences = 4;
  EXPECT_THAT(names_of(4, twos), ElementsAre("valid_tokens", "sequences"));
  twos.valid_tokens = 2;  // a size of the grid comes before a count
  EXPECT_THAT(names_of(2, twos), ElementsAre("cp", "dp", "n_mb"));
  twos.tp = 2;
  EXPECT_THAT(names_of(2, twos), ElementsAre("cp", "dp", "n_mb", "tp"));
  twos.temperature = 0.5;
  EXPECT_THAT(names_of(0.5, twos), ElementsAre("1/cp", "1/dp", "1/n_mb", "1/tp", "temperature"));
}

TEST(ScaleSuspects, NoneThatMissesByMoreThanAThousandth) {
  EXPECT_THAT(names_of(2.0019), ElementsAre("dp"));
  EXPECT_THAT(names_of(2.0021), IsEmpty());
  EXPECT_THAT(names_of(1), IsEmpty());
  EXPECT_THAT(names_of(1.0009), IsEmpty());
  EXPECT_THAT(names_of(2, TrialSizes()), IsEmpty());
}

}  // namespace
}  // namespace lossgrid
