// SPDX-License-Identifier: Apache-2.0
// The truth of `clipped_pg` at the bounds of its formulas, where a right gradient may be on either
// side.
#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "clipped_pg_cases.h"
#include "objective_batch.h"

namespace lossgrid {
namespace {

/// One token with x = prev + log_ratio, ratio clipped at 0.75 and 1.25; returns its gradient over
/// A, by the interval of all sides and by each.
struct AtBound {
  Enclosure gradient;
  std::vector<Enclosure> sides;
};
AtBound gradient_at(float ratio, float advantage, const Options& more = {}) {
  Options options = both(kNoKl, {{"ratio_clip_min", "0.25"}, {"ratio_clip_max", "0.25"}});
  for (const auto& [name, value] : more) options[name] = value;
  const auto objective = make_clipped_pg(options);
  ObjectiveBatch data =
      make_objective_batch({.lengths = {2}, .masked_share = 0, .part_of_more = false});
  PackedBatch& batch = data.batch;
  data.logprobs[0] = -1;
  batch.inputs[static_cast<std::size_t>(TokenInput::prev_logprobs)][1] = -1 - std::log(ratio);
  batch.inputs[static_cast<std::size_t>(TokenInput::generation_logprobs)][1] = -1;
  batch.inputs[static_cast<std::size_t>(TokenInput::advantages)][1] = advantage;
  std::vector<TokenTruth> rows = token_truths(data);
  rows[0].logprob = Enclosure::around(-1, 1e-6);
  const ObjectiveTruth truth = objective->truth(with_needed(batch, objective->needs()), rows);
  const double scale = -advantage * ratio;
  AtBound at{Enclosure(1 / scale) * truth.grad_logprob[0], {}};
  if (const auto sides = truth.grad_sides.find(0); sides != truth.grad_sides.end()) {
    for (const Enclosure& side : sides->second) at.sides.push_back(Enclosure(1 / scale) * side);
  }
  return at;
}

/// Shares of the gradient that the sides have, rounded to 1e-4, ascending.
std::vector<double> shares_of(const AtBound& at) {
  std::vector<double> shares;
  for (const Enclosure& side : at.sides) {
    EXPECT_LT(side.radius(), 1e-5);
    shares.push_back(std::round(1e4 * side.value) / 1e4);
  }
  std::sort(shares.begin(), shares.end());
  return shares;
}

TEST(ClippedPgTruth, AtAClipBoundTheGradientIsOneOfFewAndNothingBetween) {
  using Shares = std::vector<double>;
  // Clipped beyond the bound: nothing; a tie of rounded products: half; inside: all.
  EXPECT_EQ(shares_of(gradient_at(1.25F, 1)), (Shares{0, 0.5, 1}));
  EXPECT_EQ(shares_of(gradient_at(0.75F, -1)), (Shares{0, 0.5, 1}));
  // The bound on the other side never clips.
  EXPECT_EQ(shares_of(gradient_at(0.75F, 1)), (Shares{0.5, 1}));
  EXPECT_EQ(shares_of(gradient_at(1.25F, -1)), (Shares{0.5, 1}));
  // The interval of all sides is theirs: in particular nothing is doubled.
  const AtBound at = gradient_at(1.25F, 1);
  EXPECT_NEAR(at.gradient.low, 0, 1e-5);
  EXPECT_NEAR(at.gradient.high, 1, 1e-5);
  EXPECT_NEAR(gradient_at(1.25F, -1).gradient.low, 0.5, 1e-5);
  // 2^-10 to either side the side is known.
  const float off = 0x1p-10F;
  EXPECT_NEAR(gradient_at(1.25F * (1 - off), 1).gradient.low, 1, 1e-5);
  EXPECT_EQ(gradient_at(1.25F * (1 + off), 1).gradient.high, 0);
  EXPECT_TRUE(gradient_at(1.25F * (1 + off), 1).sides.empty());
  // min() of a dual clip: all, half, nothing.
  EXPECT_EQ(shares_of(gradient_at(1.5F, -1, {{"ratio_clip_c", "1.5"}})), (Shares{0, 0.5, 1}));
  EXPECT_EQ(shares_of(gradient_at(1.5F, 1, {{"ratio_clip_c", "1.5"}})), Shares{});
}

// A clamp of geo_mean is closed; a token of dppo is kept or not.
TEST(ClippedPgTruth, AtABoundOfOtherPolicyLossesTheGradientIsAllOrNothing) {
  using Shares = std::vector<double>;
  const Options geo_mean = both(kGeoMean, {{"ratio_clip_min", "0.5"}, {"ratio_clip_max", "0.5"}});
  const float high = std::exp(0.5F);
  EXPECT_EQ(shares_of(gradient_at(high, 1, geo_mean)), (Shares{0, 1}));
  EXPECT_EQ(shares_of(gradient_at(1 / high, -1, geo_mean)), (Shares{0, 1}));
  EXPECT_TRUE(gradient_at(high, -1, geo_mean).sides.empty());
  EXPECT_TRUE(gradient_at(1 / high, 1, geo_mean).sides.empty());
  // x is -1, the ratio 1.25: probabilities have moved by e^-1 (1 - 1 / 1.25).
  const auto dppo = [](double bound) {
    return Options{{"policy_loss", "\"dppo_tv\""},
                   {"ratio_clip_min", fmt::format("{:.9f}", bound)},
                   {"ratio_clip_max", fmt::format("{:.9f}", bound)}};
  };
  const double moved = std::exp(-1) * 0.2;
  EXPECT_EQ(shares_of(gradient_at(1.25F, 1, dppo(moved))), (Shares{0, 1}));
  EXPECT_TRUE(gradient_at(1.25F, -1, dppo(moved)).sides.empty());
  EXPECT_NEAR(gradient_at(1.25F, 1, dppo(moved * 1.001)).gradient.low, 1, 1e-5);
  EXPECT_EQ(gradient_at(1.25F, 1, dppo(moved / 1.001)).gradient.high, 0);
}

// A weight without gradient: with the same number in its place the loss is linear.
TEST(ClippedPgTruth, WeightsOfDppoAndVespoHaveNoGradient) {
  const ObjectiveBatch data = batch_of(404);
  for (const Options& options : {kDppoTv, both(kDppoKl, kDual), kVespo}) {
    const auto objective = make_clipped_pg(both(kNoKl, options));
    const ObjectiveTruth truth = objective_truth(*objective, data);
    Enclosure by_gradient = 0.0;  // sum of x g, the loss of weights that do not move
    for (std::int64_t row = 0; row < data.rows(); ++row) {
      if (std::isnan(data.logprobs[row])) continue;
      by_gradient = by_gradient + Enclosure(data.logprobs[row]) * truth.grad_logprob[row];
    }
    EXPECT_NE(truth.loss.value, 0);
    EXPECT_NEAR(by_gradient.value, truth.loss.value, 1e-12) << shown(options);
  }
}

TEST(ClippedPgTruth, AWeightExactlyAtItsBoundCounts) {
  // prev = generation: w = exp(0) = 1 in every arithmetic, which a bound of 1 keeps.
  const Options icepop{{"use_importance_sampling_correction", "true"},
                       {"truncated_importance_sampling_type", "\"icepop\""},
                       {"truncated_importance_sampling_ratio", "1"},
                       {"truncated_importance_sampling_ratio_min", "0.5"}};
  const AtBound kept = gradient_at(1, 1, icepop);
  EXPECT_NEAR(kept.gradient.low, 1, 1e-5);
  EXPECT_TRUE(kept.sides.empty());
}

}  // namespace
}  // namespace lossgrid
