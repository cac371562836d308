// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/diagnosis/scale_suspects.h"

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
  all.sequences = 13;
  all.temperature = 0.7;
  return all;
}

std::vector<std::string> names_of(double factor, const TrialSizes& of = sizes()) {
  std::vector<std::string> names;
  for (const ScaleSuspect& suspect : simplest(scale_suspects(factor, of))) {
    names.push_back(suspect.name);
  }
  return names;
}

TEST(ScaleSuspects, AreEverySizeAndItsInverse) {
  EXPECT_THAT(names_of(2), ElementsAre("dp"));
  EXPECT_THAT(names_of(1.0 / 3), ElementsAre("1/cp"));
  EXPECT_THAT(names_of(5), ElementsAre("n_mb"));
  EXPECT_THAT(names_of(-7), ElementsAre("tp"));
  EXPECT_THAT(names_of(11), ElementsAre("valid_tokens"));
  EXPECT_THAT(names_of(1.0 / 13), ElementsAre("1/sequences"));
  EXPECT_THAT(names_of(0.7), ElementsAre("temperature"));
}

TEST(ScaleSuspects, AreProducts) {
  EXPECT_THAT(names_of(6), ElementsAre("dp*cp"));
  EXPECT_THAT(names_of(2.0 / 15), ElementsAre("dp/(cp*n_mb)"));
  EXPECT_TRUE(scale_suspects(6, sizes())[0].has_word);
  EXPECT_EQ(scale_suspects(6, sizes())[0].factor, (ScaleFactor{1, 1, 0}));
  EXPECT_FALSE(scale_suspects(7, sizes())[0].has_word);
}

TEST(ScaleSuspects, AreSquaresAndQuotients) {
  TrialSizes all = sizes();
  all.rows = 37;
  all.padded_rows = 41;
  all.logit_scale = 0.6;
  EXPECT_THAT(names_of(9, all), ElementsAre("cp^2"));
  EXPECT_THAT(names_of(1.0 / 25, all), ElementsAre("1/n_mb^2"));
  EXPECT_THAT(names_of(0.49, all), ElementsAre("temperature^2"));
  EXPECT_THAT(names_of(1 / 0.6, all), ElementsAre("1/logit_scale"));
  EXPECT_THAT(names_of(1.0 / 41, all), ElementsAre("1/padded_rows"));
  EXPECT_THAT(names_of(11.0 / 37, all), ElementsAre("valid_tokens/rows"));
  EXPECT_THAT(names_of(13.0 / 11, all), ElementsAre("sequences/valid_tokens"));
  all.padded_rows = 37;  // no padding: rows alone are named
  EXPECT_THAT(names_of(1.0 / 37, all), ElementsAre("1/rows"));
}

TEST(ScaleSuspects, AreAllOfTheSimplestThatFit) {
  TrialSizes twos;
  twos.scale = {2, 2, 2};
  EXPECT_THAT(names_of(2, twos), ElementsAre("cp", "dp", "n_mb"));
  // One size, or its square, comes before a product.
  EXPECT_THAT(names_of(4, twos), ElementsAre("n_mb^2", "dp^2", "cp^2"));
  twos.valid_tokens = 4;
  EXPECT_THAT(names_of(4, twos), ElementsAre("n_mb^2", "dp^2", "cp^2", "valid_tokens"));
  EXPECT_THAT(names_of(8, twos), ElementsAre("dp*cp*n_mb"));
  twos.valid_tokens = 2;  // a size of the grid comes before a count
  EXPECT_THAT(names_of(2, twos), ElementsAre("cp", "dp", "n_mb"));
  twos.tp = 2;
  EXPECT_THAT(names_of(2, twos), ElementsAre("cp", "dp", "n_mb", "tp"));
  twos.temperature = 0.5;
  EXPECT_THAT(names_of(0.5, twos), ElementsAre("1/cp", "1/dp", "1/n_mb", "1/tp", "temperature"));
}

TEST(ScaleSuspects, MissByAThousandthAtMost) {
  EXPECT_THAT(names_of(2.0019), ElementsAre("dp"));
  EXPECT_THAT(names_of(2.0021), IsEmpty());
  EXPECT_THAT(names_of(1), IsEmpty());
  EXPECT_THAT(names_of(1.0009), IsEmpty());
  EXPECT_THAT(names_of(2, TrialSizes()), IsEmpty());
}

}  // namespace
}  // namespace lossgrid
