// SPDX-License-Identifier: Apache-2.0
// Examples of ratios, policy losses, aggregations and penalties, computed by hand.
#include "clipped_pg_by_hand.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

TEST(ClippedPg, RatiosByHand) {
  const double up = std::log(1.5);
  const double down = std::log(0.5);
  const ObjectiveBatch data = tiny({{{1, up}, {-2, down}, {-1, up}, {2, down}, {3, 0}}});
  // -A rho or -A clipped: -1.2, 1.6, 1.5, -1, -3.
  expect_by_hand(kNoKl, data, -2.1 / 5, {0, 0, 1.5 / 5, -1.0 / 5, -3.0 / 5},
                 {{"loss", -2.1 / 5},
                  {"kl_penalty", 0},
                  {"positive_nll_loss", 0},
                  {"num_valid_samples", 1},
                  {"probs_ratio", 5.0 / 5},
                  {"probs_ratio_clamped", 5.0 / 5},
                  {"probs_ratio_min", 0.5},
                  {"probs_ratio_max", 1.5},
                  {"probs_ratio_clamped_min", 0.8},
                  {"probs_ratio_clamped_max", 1.2}});
  // The third token's loss is at most 1.3.
  expect_by_hand(both(kNoKl, kDual), data, -2.3 / 5, {0, 0, 0, -1.0 / 5, -3.0 / 5});
  // -A clipped x with x = -2: 2.4, -3.2, -2.4, 3.2, 6.
  expect_by_hand(both(kNoKl, kCispo), data, 6.0 / 5,
                 {-1.2 / 5, 1.6 / 5, 1.2 / 5, -1.6 / 5, -3.0 / 5});
  // -A x.
  expect_by_hand(both(kNoKl, kReinforce), data, 2.0 * 3 / 5,
                 {-1.0 / 5, 2.0 / 5, 1.0 / 5, -2.0 / 5, -3.0 / 5}, {{"probs_ratio", -2}});
  expect_by_hand(both(kNoKl, kOnPolicy), data, -3.0 / 5,
                 {-1.0 / 5, 2.0 / 5, 1.0 / 5, -2.0 / 5, -3.0 / 5}, {{"probs_ratio", 1}});
}

TEST(ClippedPg, SequencesByHand) {
  // Ratios: sqrt(1.1 * 1.0) stays, 1.5 is clipped for the positive advantage.
  const double a = std::log(1.1);
  const ObjectiveBatch data = tiny({{{1, a}, {2, 0}}, {{1, std::log(1.5)}, {-1, std::log(1.5)}}});
  const double rho = std::sqrt(1.1);
  // Mean losses: -1.5 rho; (-1.2 + 1.5) / 2. Slopes by the ratios: -1.5; 0.5.
  expect_by_hand(both(kNoKl, kGspo), data, (-1.5 * rho + 0.15) / 2,
                 {-1.5 * rho / 4, -1.5 * rho / 4, 0.5 * 1.5 / 4, 0.5 * 1.5 / 4},
                 {{"probs_ratio", (2 * rho + 3) / 4}, {"sampling_importance_ratio", 1}});
  // Token ratios, means of sequences of unequal length.
  const ObjectiveBatch unequal = tiny({{{1, a}, {2, 0}, {3, 0}}, {{4, 0}}});
  expect_by_hand(both(kNoKl, kSequenceMean), unequal, (-(1.1 + 2 + 3) / 3 - 4) / 2,
                 {-1.1 / 6, -2.0 / 6, -3.0 / 6, -4.0 / 2});
}

TEST(ClippedPg, GeometricMeansByHand) {
  // Logarithms within 0.2: 0.2 and -0.5, whose other side is open; -0.2; 0 and -0.1.
  const ObjectiveBatch data = tiny({{{1, 0.5}, {1, -0.5}}, {{-2, -0.3}}, {{0, 0.4}, {-3, -0.1}}});
  const double a = std::exp(-0.15);
  const double b = std::exp(-0.2);
  const double c = std::exp(-0.05);
  expect_by_hand(
      both(kNoKl, kGeoMean), data, (-a + 2 * b + 1.5 * c) / 3,
      {0, -a / 2 / 3, 0, 0, 1.5 * c / 2 / 3},
      {{"probs_ratio", (2 * a + b + 2 * c) / 5}, {"probs_ratio_clamped", (2 * a + b + 2 * c) / 5}});
  // A token's share of a sum over tokens is that of its sequence's loss.
  expect_by_hand(policy_loss("\"geo_mean\"", both(kNoKl, kAggregations[1])), data,
                 -2 * a + 2 * b + 2 * 1.5 * c, {0, -a, 0, 0, 1.5 * c});
}

TEST(ClippedPg, DroByHand) {
  const ObjectiveBatch data = tiny({{{2, 0.5}, {-1, -0.25}}});
  expect_by_hand(both(kNoKl, kDro), data, (0.35 * 0.25 + 4 + 0.35 / 16 - 2) / 2,
                 {(0.35 - 2) / 2, (-0.175 + 1) / 2});
}

TEST(ClippedPg, DppoByHand) {
  // e^-2 is 0.135, probabilities move by 0.045 and -0.068.
  const double up = std::log(1.5);
  const double down = -std::log(1.5);
  const ObjectiveBatch data = tiny({{{1, up}, {-1, up}, {2, down}, {-2, down}, {0, up}}});
  const auto tv = [](const char* low, const char* high) {
    return both(kNoKl,
                policy_loss("\"dppo_tv\"", {{"ratio_clip_min", low}, {"ratio_clip_max", high}}));
  };
  const double w = 1 / 1.5;
  // -A rho x with x = -2; the first and the fourth token move as their advantages ask.
  expect_by_hand(tv("0.07", "0.05"), data, (3 - 3 + 4 * w - 4 * w) / 5,
                 {-1.5 / 5, 1.5 / 5, -2 * w / 5, 2 * w / 5, 0});
  expect_by_hand(tv("0.07", "0.04"), data, (-3 + 4 * w - 4 * w) / 5,
                 {0, 1.5 / 5, -2 * w / 5, 2 * w / 5, 0});
  expect_by_hand(tv("0.06", "0.05"), data, (3 - 3 + 4 * w) / 5,
                 {-1.5 / 5, 1.5 / 5, -2 * w / 5, 0, 0});
  expect_by_hand(both(tv("0.07", "0.05"), kDual), data, (4 * w - 4 * w) / 5,
                 {-1.3 / 5, 1.3 / 5, -2 * w / 5, 2 * w / 5, 0});
  // Binary KL of 0.090 from 0.135 and of 0.203 from it.
  const double above = 0.0902235 * -up + 0.9097765 * std::log(0.9097765 / 0.8646647);
  const double below = 0.2030029 * -down + 0.7969971 * std::log(0.7969971 / 0.8646647);
  ASSERT_NEAR(above, 0.00969, 1e-5);
  ASSERT_NEAR(below, 0.01736, 1e-5);
  const auto kl = [](const char* low, const char* high) {
    return both(kNoKl,
                policy_loss("\"dppo_kl\"", {{"ratio_clip_min", low}, {"ratio_clip_max", high}}));
  };
  expect_by_hand(kl("0.0174", "0.0097"), data, 0, {-1.5 / 5, 1.5 / 5, -2 * w / 5, 2 * w / 5, 0});
  expect_by_hand(kl("0.0173", "0.0096"), data, (-3 + 4 * w) / 5, {0, 1.5 / 5, -2 * w / 5, 0, 0});
}

TEST(ClippedPg, DppoWithProbabilitiesOfOne) {
  // Both 1; from e^-0.5 to 1: the KL has a logarithm of 0.39 over 1e-8.
  ObjectiveBatch data = tiny({{{1, 0}, {1, 0.5}, {-1, 0.5}}});
  std::vector<float>& prev = data.batch.inputs[static_cast<int>(TokenInput::prev_logprobs)];
  for (int row = 0; row < 3; ++row) {
    data.logprobs[row] = 0;
    prev[row + 1] += 2;
  }
  const double rho = std::exp(0.5);
  expect_by_hand(both(kNoKl, kDppoKl), data, 0, {-1.0 / 3, 0, rho / 3});
}

TEST(ClippedPg, VespoByHand) {
  // Sums of log ratios 0.3, 25 and -25: the second has no weight left.
  const ObjectiveBatch data =
      tiny({{{1, 0.5}, {-1, -0.2}, {0, 0}}, {{1, 12}, {1, 13}}, {{1, -12}, {-1, -13}}});
  const double s = 0.3;
  const double positive = std::exp(3 + 2 * s - 3 * std::exp(s));
  const double negative = std::exp(2 + 3 * s - 2 * std::exp(s));
  // -A phi x with x = -2.
  expect_by_hand(both(kNoKl, kVespo), data, (2 * positive - 2 * negative) / 7,
                 {-positive / 7, negative / 7, 0, 0, 0, 0, 0});
  // k = 0 and lambda = 0: REINFORCE.
  const Options flat{{"vespo_k_pos", "0"},
                     {"vespo_lambda_pos", "0"},
                     {"vespo_k_neg", "0"},
                     {"vespo_lambda_neg", "0"}};
  expect_by_hand(both(kNoKl, both(flat, kVespo)), data, (2 * 4 - 2 * 2) / 7.0,
                 {-1.0 / 7, 1.0 / 7, 0, -1.0 / 7, -1.0 / 7, -1.0 / 7, 1.0 / 7});
  // e^-18.42 = 1e-8 is the least ratio of a sequence: a weight of (1e-8)^0.25 e^(0.1 - 1e-9).
  const Options soft{{"vespo_k_pos", "0.25"}, {"vespo_lambda_pos", "0.1"}};
  const ObjectiveBatch least = tiny({{{1, -12}, {1, -13}}});
  expect_by_hand(both(kNoKl, both(soft, kVespo)), least, 2 * 0.01 * std::exp(0.1),
                 {-0.005 * std::exp(0.1), -0.005 * std::exp(0.1)});
}

TEST(ClippedPg, AggregationsByHand) {
  // Sequences of one and two targets, one without a target and a masked one.
  ObjectiveBatch data = tiny({{{1, 0}}, {{2, 0}, {3, 0}}, {}, {{5, 0}}});
  data.batch.sample_mask.back() = 0;
  data.logprobs[data.batch.cu_seqlens[3]] = kPoison;
  data.batch.denominators = count_denominators(data.batch, false);
  const auto expect_weights = [&](const Options& options, double one, double two) {
    expect_by_hand(both(kNoKl, options), data, -(one + 5 * two), {-one, -2 * two, -3 * two});
    expect_by_hand(both(both(kNoKl, kEntropyBonus), options), data, -(one + 5 * two),
                   {-one, -2 * two, -3 * two}, {{"entropy", 0}});
  };
  std::fill(data.terms[RowTerm::entropy].begin(), data.terms[RowTerm::entropy].end(), 0.0f);
  expect_weights({}, 1.0 / 3, 1.0 / 3);
  expect_weights(kSequenceMean, 1.0 / 3, 0.5 / 3);
  expect_weights(aggregated("\"token-mean\""), 1.0 / 3, 1.0 / 3);
  expect_weights(aggregated("\"token-sum\""), 1, 1);
  expect_weights(aggregated("\"seq-mean-token-mean\""), 1.0 / 2, 0.5 / 2);
  expect_weights(aggregated("\"seq-mean-token-sum\""), 1.0 / 2, 1.0 / 2);
  const Options norm = aggregated("\"seq-mean-token-sum-norm\"", {{"loss_scale_factor", "8"}});
  expect_weights(norm, 1.0 / 16, 1.0 / 16);
  const Options masked_too{{"count_masked_sequences", "true"}};
  expect_weights(aggregated("\"seq-mean-token-mean\"", masked_too), 1.0 / 4, 0.5 / 4);
  expect_weights(both(aggregated("\"seq-mean-token-sum\""), masked_too), 1.0 / 4, 1.0 / 4);
  expect_weights(both(norm, masked_too), 1.0 / 32, 1.0 / 32);
  // Groups of one and two targets, and one whose sequences are masked or have none.
  count_groups(data.batch, false);
  const Options of_two = aggregated("\"prompt-mean\"", {{"prompt_group_size", "2"}});
  expect_weights(of_two, 1.0 / 3, 1.0 / 3);
  expect_weights(both(of_two, masked_too), 1.0 / 6, 1.0 / 6);
  data.batch.group_tokens = {1, 2, 2, 2};
  data.batch.denominators.trained_groups = 2;
  expect_weights(of_two, 1.0 / 2, 0.5 / 2);
  // The same for packs, of which there are three, one without a valid token.
  const Options of_packs = aggregated("\"token-mean-legacy\"");
  expect_weights(of_packs, 1.0 / 2, 0.5 / 2);
  data.batch.denominators.all_groups = 3;
  expect_weights(both(of_packs, masked_too), 1.0 / 3, 0.5 / 3);
  // The mode stands in the place of the flag.
  expect_weights(both(aggregated("\"token-sum\""), kSequenceMean), 1, 1);
}

TEST(ClippedPg, SequenceRatiosInEveryAggregationByHand) {
  // One ratio of sqrt(1.1) for two tokens whose terms are summed: each token has half of the slope.
  const ObjectiveBatch data = tiny({{{1, std::log(1.1)}, {2, 0}}, {{1, std::log(1.05)}}});
  const double rho = std::sqrt(1.1);
  const Options gspo = both(kNoKl, kGspo);
  const auto expect_weights = [&](const Options& options, double one, double two) {
    expect_by_hand(both(options, gspo), data, -(one * 3 * rho + two * 1.05),
                   {-one * 1.5 * rho, -one * 1.5 * rho, -two * 1.05});
  };
  expect_weights({}, 0.25, 0.5);
  expect_weights(aggregated("\"token-mean\""), 1.0 / 3, 1.0 / 3);
  expect_weights(aggregated("\"token-sum\""), 1, 1);
  expect_weights(aggregated("\"seq-mean-token-mean\""), 0.25, 0.5);
  expect_weights(aggregated("\"seq-mean-token-sum\""), 0.5, 0.5);
}

TEST(ClippedPg, SapoByHand) {
  const Options sapo =
      both({{"policy_loss", "\"sapo\""}, {"tau_pos", "2"}, {"tau_neg", "4"}}, kNoKl);
  // At a ratio of 1 the sigmoid is a half: -2 A / tau, with the gradient of PPO.
  expect_by_hand(sapo, tiny({{{1, 0}, {-2, 0}, {0, 0}}}), (-1 + 1) / 3.0, {-1.0 / 3, 2.0 / 3, 0});
  // sigmoid(2 (1.5 - 1)) = s; -A 4 s (1 - s) rho.
  const double s = 1 / (1 + std::exp(-1));
  expect_by_hand(sapo, tiny({{{3, std::log(1.5)}}}), -3 * 2 * s, {-3 * 4 * s * (1 - s) * 1.5});
  // Far away the gate is flat, on one side, and the ratio vanishes, on the other.
  expect_by_hand(sapo, tiny({{{3, 30}}}), -3 * 2, {0});
  expect_by_hand(sapo, tiny({{{-3, -30}}}), 3 / (1 + std::exp(4)), {0});
}

TEST(ClippedPg, PenaltiesByHand) {
  const ObjectiveBatch data = tiny({{{0, 0, 0, 0.5}, {0, 0, 0, -1}}});
  const auto options = [](const char* type) {
    return Options{{"reference_policy_kl_penalty", "2"}, {"reference_policy_kl_type", type}};
  };
  expect_by_hand(options("\"k1\""), data, 0.5, {1 - 0.5, 1 + 1}, {{"kl_penalty", 0.25}});
  expect_by_hand(options("\"k2\""), data, 0.125 + 0.5, {0.125 - 0.5, 0.5 + 1},
                 {{"kl_penalty", 0.3125}});
  const double k3 = std::exp(0.5) - 1.5 + std::exp(-1.0);
  expect_by_hand(options("\"k3\""), data, k3, {-0.5, 1}, {{"kl_penalty", k3 / 2}});
  // Clamped inputs give a constant, clamped outputs as well.
  expect_by_hand(both({{"kl_input_clamp_value", "0.75"}}, options("\"k1\"")), data, 0.25, {0.5, 0});
  expect_by_hand(both({{"kl_output_clamp_value", "0.25"}}, options("\"k2\"")), data, 0.125 + 0.25,
                 {0.125 - 0.5, 0});

  ObjectiveBatch rewarded = tiny({{{0}, {0}}, {{0}}, {{0}}});
  rewarded.batch.rewards = {1, 0, 0.5};
  rewarded.batch.denominators = count_denominators(rewarded.batch, false);
  expect_by_hand(both(kNoKl, kNll), rewarded, 0.6, {-0.1, -0.1, 0, -0.1},
                 {{"positive_nll_loss", 2}});
}

TEST(ClippedPg, PoliciesApartByHand) {
  const ObjectiveBatch data = tiny({{{1, 0, 0.5}, {1, 0, -1}}});
  const double u[] = {0.5 * (std::exp(-2) + std::exp(-2.5)), 0.5 * (std::exp(-2) + std::exp(-1))};
  const double ratios[] = {std::exp(-2) / u[0], std::exp(-2.5) / u[0], std::exp(-2) / u[1],
                           std::exp(-1) / u[1]};
  double js = 0;
  for (const double ratio : ratios) js += (ratio - 1 - std::log(ratio)) / 2;
  expect_by_hand(kNoKl, data, -1, {-0.5, -0.5},
                 {{"token_mult_prob_error", (std::exp(0.5) + std::exp(1)) / 2},
                  {"gen_kl_error", (std::exp(0.5) - 1.5 + std::exp(-1)) / 2},
                  {"policy_kl_error", (std::exp(-0.5) - 0.5 + std::exp(1) - 2) / 2},
                  {"js_divergence_error", js / 2},
                  {"approx_entropy", (2 * std::exp(0.5) + 2 * std::exp(-1)) / 2}});
}

TEST(ClippedPg, ApproximatedProximalPoliciesByHand) {
  // x - q is ln 4: ratios of 4, of 2 for a share of 1/2, of sqrt 2 for one of 3/4.
  const double far = std::log(4);
  ObjectiveBatch data = tiny({{{1, far}, {1, far}, {1, far}, {1, far}, {1, far}, {1, far}}});
  std::vector<float>& versions = data.batch.inputs[static_cast<std::size_t>(TokenInput::versions)];
  const float drawn[] = {4, 3, 1, 5, 6, -1};
  std::copy(std::begin(drawn), std::end(drawn), versions.begin() + 1);
  const Options wide = both(kNoKl, {{"ratio_clip_max", "9"}});
  const double fourth = std::sqrt(2.0);
  const auto expect_ratios = [&](const Options& options, double half, double three_fourths) {
    const double sum = 16 + half + three_fourths;
    expect_by_hand(both(wide, options), data, -sum / 6,
                   {-4.0 / 6, -half / 6, -three_fourths / 6, -4.0 / 6, -4.0 / 6, -4.0 / 6});
  };
  expect_ratios(proximal("\"loglinear\""), 2, fourth);
  // By probabilities p = e^-2 and p / 4: ratios of 1 / (1/2 + 1/8) and 1 / (3/4 + 1/16).
  expect_ratios(proximal("\"linear\""), 1.6, 16.0 / 13);
  // The weight is that of the approximated over the generating policy: all ratios are 4 once more.
  expect_ratios(proximal("\"loglinear\"", {{"use_importance_sampling_correction", "true"}}), 4, 4);
}

TEST(ClippedPg, DppoToTheGeneratingPolicyByHand) {
  // Probabilities of e^-2 = 0.1353; the previous policy stands where it would drop nothing.
  const auto token = [](double advantage, double ratio) {
    return TinyToken{advantage, 0, std::log(ratio)};
  };
  const ObjectiveBatch data = tiny({{token(1, 2), token(1, 0.5), token(-1, 2), token(-1, 0.5)}});
  // p - q is 0.068 for a ratio of 2, -0.135 for one of 1/2.
  const auto expect_kept = [&](const char* name, const char* low, const char* high, double above,
                               double below) {
    expect_by_hand(
        policy_loss(name, both(kNoKl, {{"ratio_clip_min", low}, {"ratio_clip_max", high}})), data,
        (-2 * above - 0.5 + 2 + 0.5 * below) / 4,
        {-2 * above / 4, -0.5 / 4, 2.0 / 4, 0.5 * below / 4});
  };
  expect_kept("\"dppo_binary_tv\"", "0.13", "0.06", 0, 0);
  expect_kept("\"dppo_binary_tv\"", "0.14", "0.07", 1, 1);
  expect_kept("\"dppo_binary_tv\"", "0.14", "0.06", 0, 1);
  // Binary KLs of 0.0233 and 0.0634.
  expect_kept("\"dppo_binary_kl\"", "0.07", "0.02", 0, 1);
  expect_kept("\"dppo_binary_kl\"", "0.05", "0.03", 1, 0);
}

}  // namespace
}  // namespace lossgrid
