// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/case/scale_factor.h"

#include <string>

#include <gtest/gtest.h>

#include "expect_error.h"

namespace lossgrid {
namespace {

TEST(ScaleFactor, IsReadFromLeftToRight) {
  EXPECT_EQ(parse_scale("1", "x"), (ScaleFactor{0, 0, 0}));
  EXPECT_EQ(parse_scale("cp", "x"), (ScaleFactor{0, 1, 0}));
  EXPECT_EQ(parse_scale("dp*n_mb/cp", "x"), (ScaleFactor{1, -1, 1}));
  EXPECT_EQ(parse_scale("1/dp*cp", "x"), (ScaleFactor{-1, 1, 0}));
  EXPECT_EQ(parse_scale("1/(dp*cp)", "x"), (ScaleFactor{-1, -1, 0}));
  EXPECT_EQ(parse_scale("1/cp*n_mb/cp", "x"), (ScaleFactor{0, -2, 1}));
  EXPECT_EQ(parse_scale("dp/(cp/(n_mb*1))", "x"), (ScaleFactor{1, -1, 1}));
  EXPECT_EQ(parse_scale("cp/cp", "x"), ScaleFactor{});
}

TEST(ScaleFactor, TheShortestTextReadsBack) {
  EXPECT_EQ(format_scale({}), "1");
  EXPECT_EQ(format_scale({1, -1, 1}), "dp*n_mb/cp");
  EXPECT_EQ(format_scale({0, -2, 1}), "n_mb/(cp*cp)");
  EXPECT_EQ(format_scale({-1, -1, 0}), "1/(dp*cp)");
  for (int dp = -4; dp <= 4; ++dp) {
    for (int cp = -4; cp <= 4; ++cp) {
      for (int n_mb = -4; n_mb <= 4; ++n_mb) {
        const ScaleFactor factor{dp, cp, n_mb};
        ASSERT_EQ(parse_scale(format_scale(factor), "x"), factor) << format_scale(factor);
      }
    }
  }
}

TEST(ScaleFactor, HasTheValueOfItsProduct) {
  const ScaleSizes sizes{3, 5, 7};
  EXPECT_EQ(ScaleFactor{}.value(sizes), 1);
  EXPECT_EQ((ScaleFactor{1, 1, 1}.value(sizes)), 105);
  EXPECT_EQ((ScaleFactor{2, -1, 1}.value(sizes)), 63.0 / 5);
  EXPECT_EQ((ScaleFactor{-1, -1, 0} * ScaleFactor{1, 1, -2}).value(sizes), 1.0 / 49);
}

TEST(ScaleFactor, IsOneWhenTheNumbersCancelExactly) {
  EXPECT_TRUE((ScaleFactor{}.is_one({3, 5, 7})));
  EXPECT_TRUE((ScaleFactor{4, -4, 2}.is_one({1, 1, 1})));
  EXPECT_TRUE((ScaleFactor{1, -1, 0}.is_one({6, 6, 5})));
  EXPECT_TRUE((ScaleFactor{1, 1, -1}.is_one({4, 3, 12})));
  EXPECT_TRUE((ScaleFactor{2, 0, -1}.is_one({6, 5, 36})));
  EXPECT_FALSE((ScaleFactor{0, 1, 0}.is_one({1, 2, 1})));
  EXPECT_FALSE((ScaleFactor{1, -1, 0}.is_one({6, 4, 1})));
  EXPECT_FALSE((ScaleFactor{-1, 0, 0}.is_one({2, 1, 1})));
  // A quotient that rounds to 1: n^4 / ((n - 1)^2 (n + 1)^2) with n = 2^30.
  const std::int64_t n = std::int64_t{1} << 30;
  const ScaleFactor close{4, -2, -2};
  EXPECT_EQ(close.value({n, n - 1, n + 1}), 1);
  EXPECT_FALSE(close.is_one({n, n - 1, n + 1}));
}

TEST(ScaleFactor, ErrorsNameTheKeyAndTheRule) {
  for (const char* text : {"", "2", "tp", "dp*", "*dp", "dp**cp", "(dp", "dp)", "()", "dp cp",
                           "dp^2", "-1", "n_mb/0", "dp*(cp"}) {
    expect_bad_input([&] { parse_scale(text, "framework.loss"); },
                     {"framework.loss = '" + std::string(text) + "'", "dp, cp, n_mb and 1"});
  }
  expect_bad_input([] { parse_scale("cp*cp*cp*cp*cp", "framework.loss"); },
                   {"framework.loss", "cp more than 4 times"});
  expect_bad_input([] { parse_scale(std::string(1'000'000, '('), "framework.loss"); },
                   {"framework.loss"});
}

}  // namespace
}  // namespace lossgrid
