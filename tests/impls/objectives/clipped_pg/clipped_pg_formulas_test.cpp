// SPDX-License-Identifier: Apache-2.0
// The formulas of `clipped_pg` at their kinks.
#include "impls/objectives/clipped_pg/clipped_pg_formulas.h"

#include <cmath>

#include <gtest/gtest.h>

#include "clipped_pg_cases.h"

namespace lossgrid {
namespace {

ClippedPgOptions quarter_clip(const Options& more = {}) {
  return ClippedPgOptions::from(
      both(more, {{"ratio_clip_min", "0.25"}, {"ratio_clip_max", "0.25"}}));
}

TEST(ClippedPgFormulas, ClampsAreClosed) {
  const ClippedPgOptions options = quarter_clip();
  const auto clipped = [&](double rho) { return ClippedPgFormulas::clipped(rho, options); };
  for (const double inside : {0.75, 1.0, 1.25}) {
    EXPECT_EQ(clipped(inside).value, inside);
    EXPECT_EQ(clipped(inside).slope, 1);
  }
  EXPECT_EQ(clipped(std::nextafter(0.75, 0)).value, 0.75);
  EXPECT_EQ(clipped(std::nextafter(0.75, 0)).slope, 0);
  EXPECT_EQ(clipped(std::nextafter(1.25, 2)).value, 1.25);
  EXPECT_EQ(clipped(std::nextafter(1.25, 2)).slope, 0);

  const ClippedPgOptions bounded = ClippedPgOptions::from(
      both(kl("\"k2\""), {{"kl_input_clamp_value", "2"}, {"kl_output_clamp_value", "1.125"}}));
  const auto penalty = [&](double r) {
    return kl_penalty<ClippedPgFormulas>(-4.0, -4.0, -4.0, -4.0 + r, bounded);
  };
  EXPECT_EQ(penalty(-1.5).value, 1.125);  // on the output bound
  EXPECT_EQ(penalty(-1.5).slope, 1.125 + 1.5);
  EXPECT_EQ(penalty(-1.75).value, 1.125);
  EXPECT_EQ(penalty(-1.75).slope, 0);
  const ClippedPgOptions only_input = ClippedPgOptions::from(
      both(kl("\"k2\""), {{"kl_input_clamp_value", "2"}, {"kl_output_clamp_value", "null"}}));
  const auto on_input = kl_penalty<ClippedPgFormulas>(-4.0, -4.0, -4.0, -2.0, only_input);
  EXPECT_EQ(on_input.value, 2);
  EXPECT_EQ(on_input.slope, 2 - 2);
  const auto at_minus = kl_penalty<ClippedPgFormulas>(-4.0, -4.0, -4.0, -6.0, only_input);
  EXPECT_EQ(at_minus.slope, 2 + 2);
  const auto beyond = kl_penalty<ClippedPgFormulas>(-4.0, -4.0, -4.0, -6.5, only_input);
  EXPECT_EQ(beyond.value, 2);
  EXPECT_EQ(beyond.slope, 0);
}

TEST(ClippedPgFormulas, TiesTakeHalfFromEach) {
  using F = ClippedPgFormulas;
  EXPECT_EQ(F::larger_share(1.0, 1.0), 0.5);
  const auto slope = [](double advantage, double rho, const ClippedPgOptions& options) {
    return surrogate<F>(advantage, rho, F::clipped(rho, options), options).slope;
  };
  for (const double rho : {0.75, 1.0, 1.25}) {
    EXPECT_EQ(slope(3, rho, quarter_clip()), -3);
    EXPECT_EQ(slope(-3, rho, quarter_clip()), 3);
  }
  const ClippedPgOptions dual = quarter_clip({{"ratio_clip_c", "2"}});
  EXPECT_EQ(slope(-3, std::nextafter(2.0, 0), dual), 3);
  EXPECT_EQ(slope(-3, 2, dual), 1.5);
  EXPECT_EQ(slope(-3, std::nextafter(2.0, 3), dual), 0);
  EXPECT_EQ(slope(3, 0.25, dual), -3);  // positive advantages have no such bound
}

TEST(ClippedPgFormulas, WeightsThatFloat32CannotHoldAre0) {
  using F = ClippedPgFormulas;
  EXPECT_EQ(F::finite_exp(0.0), 1);
  EXPECT_GT(F::finite_exp(88.7), 3e38);
  EXPECT_EQ(F::finite_exp(88.8), 0);
  EXPECT_EQ(F::finite_exp(1e4), 0);
  EXPECT_EQ(F::finite_exp(100.0f), 0);
  EXPECT_EQ(F::finite_exp(std::nan("")), 0);
  const auto options = ClippedPgOptions::from(kKlOfGeneration);
  EXPECT_EQ(F::kl_weight(-1.0, -91.0, options).value, 0);
  EXPECT_EQ(F::kl_weight(-1.0, -91.0, options).slope, 0);
}

TEST(ClippedPgFormulas, BoundsOfWeightsAreClosed) {
  using F = ClippedPgFormulas;
  for (const char* type : {"\"tis\"", "\"icepop\"", "\"seq-mask-tis\""}) {
    const auto options =
        ClippedPgOptions::from(both({{"truncated_importance_sampling_ratio", "2"},
                                     {"truncated_importance_sampling_ratio_min", "0.5"}},
                                    truncation(type)));
    for (const double weight : {0.5, 2.0}) {
      EXPECT_FALSE(F::out_of_bounds(weight, options));
      EXPECT_EQ(F::truncated(weight, options), weight);
    }
    EXPECT_TRUE(F::out_of_bounds(std::nextafter(0.5, 0), options));
    EXPECT_TRUE(F::out_of_bounds(std::nextafter(2.0, 3), options));
  }
}

}  // namespace
}  // namespace lossgrid
