// SPDX-License-Identifier: Apache-2.0
// Examples small enough to compute by hand, and the formulas at their kinks.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "clipped_pg_cases.h"
#include "objective_batch.h"

namespace lossgrid {
namespace {

/// One token: its advantage and how far policies are from the current one at log-probability -2.
struct TinyToken {
  double advantage;
  double x_minus_prev = 0;
  double prev_minus_generation = 0;
  double reference_minus_x = 0;
};

ObjectiveBatch tiny(const std::vector<std::vector<TinyToken>>& sequences) {
  ObjectiveBatchShape shape{.lengths = {}, .masked_share = 0, .part_of_more = false};
  for (const auto& tokens : sequences) {
    shape.lengths.push_back(static_cast<std::int64_t>(tokens.size()) + 1);
  }
  ObjectiveBatch data = make_objective_batch(shape);
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    for (std::size_t t = 0; t < sequences[i].size(); ++t) {
      const TinyToken& token = sequences[i][t];
      const std::int64_t slot = data.batch.cu_seqlens[i] + static_cast<std::int64_t>(t) + 1;
      const auto set = [&](TokenInput which, double value) {
        data.batch.inputs[static_cast<std::size_t>(which)][slot] = static_cast<float>(value);
      };
      data.logprobs[slot - 1] = -2;
      set(TokenInput::advantages, token.advantage);
      set(TokenInput::prev_logprobs, -2 - token.x_minus_prev);
      set(TokenInput::generation_logprobs, -2 - token.x_minus_prev - token.prev_minus_generation);
      set(TokenInput::reference_policy_logprobs, -2 + token.reference_minus_x);
    }
  }
  return data;
}

/// Loss and gradient of the rows with a target, in both the steps and the truth.
void expect_by_hand(const Options& options, const ObjectiveBatch& data, double loss,
                    const std::vector<double>& gradient,
                    const std::map<std::string, double>& metrics = {}) {
  const auto objective = make_clipped_pg(options);
  const ObjectiveRun run = run_objective(*objective, data);
  const ObjectiveTruth truth = objective_truth(*objective, data);
  EXPECT_NEAR(run.loss, loss, 1e-6) << shown(options);
  EXPECT_NEAR(truth.loss.value, loss, 1e-6) << shown(options);
  std::size_t next = 0;
  for (std::size_t row = 0; row < run.gradient.size(); ++row) {
    if (std::isnan(data.logprobs[row])) continue;
    EXPECT_NEAR(run.gradient[row], gradient.at(next), 1e-6) << shown(options) << "row " << row;
    EXPECT_NEAR(truth.grad_logprob[row].value, gradient.at(next), 1e-6) << shown(options);
    ++next;
  }
  for (const auto& [name, value] : metrics) {
    EXPECT_NEAR(run.metrics.at(name).value().value(), value, 1e-6) << name;
    EXPECT_NEAR(truth.metrics.at(name).value().value().value, value, 1e-6) << name;
  }
}

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

TEST(ClippedPg, RejectionsByHand) {
  const auto token = [](double advantage, double weight) {
    return TinyToken{advantage, 0, std::log(weight)};
  };
  // Weights 2, 1/2 and 1; 1.5, 1.5 and 0.9: products 1 and 2.025, geometric means 1 and 1.27.
  const ObjectiveBatch data = tiny(
      {{token(1, 2), token(2, 0.5), token(3, 1)}, {token(4, 1.5), token(-5, 1.5), token(6, 0.9)}});
  const auto expect_kept = [&](const Options& options, const std::vector<double>& kept) {
    const std::vector<double> advantages{1, 2, 3, 4, -5, 6};
    double loss = 0;
    double dropped = 0;
    std::vector<double> gradient;
    for (std::size_t k = 0; k < kept.size(); ++k) {
      gradient.push_back(-kept[k] * advantages[k] / 6);
      loss += gradient.back();
      dropped += (1 - kept[k]) / 6;
    }
    expect_by_hand(both(options, kNoKl), data, loss, gradient,
                   {{"rollout_rs_masked_fraction", dropped}});
  };
  const Options low{{"rollout_rs_threshold_min", "0.8"}};
  expect_kept(rejection("\"token_k1\"", "1.6", low), {0, 0, 1, 1, 1, 1});
  expect_kept(rejection("\"token_k1\"", "1.6"), {0, 1, 1, 1, 1, 1});
  expect_kept(rejection("\"token_k2\"", "0.1"), {0, 0, 1, 1, 1, 1});
  expect_kept(rejection("\"seq_sum_k1\"", "1.6", low), {1, 1, 1, 0, 0, 0});
  expect_kept(rejection("\"seq_mean_k1\"", "1.2", low), {1, 1, 1, 0, 0, 0});
  expect_kept(rejection("\"seq_mean_k1\"", "1.3", low), {1, 1, 1, 1, 1, 1});
  // k2 is 0.24 twice; 0.082 twice and 0.006: the largest, sums and means.
  expect_kept(rejection("\"seq_max_k2\"", "0.1"), {0, 0, 0, 1, 1, 1});
  expect_kept(rejection("\"seq_sum_k2\"", "0.16"), {0, 0, 0, 0, 0, 0});
  expect_kept(rejection("\"seq_mean_k2\"", "0.1"), {0, 0, 0, 1, 1, 1});
  expect_kept({{"veto_ratio_min", "0.6"}}, {0, 0, 0, 1, 1, 1});
  expect_kept({{"veto_ratio_max", "1.4"}}, {0, 0, 0, 0, 0, 0});
  // generation - x is minus the mean log weight here: 0 and -0.235.
  expect_kept({{"off_policy_mask_threshold", "-0.1"}}, {1, 1, 1, 1, 1, 1});
  expect_kept({{"off_policy_mask_threshold", "-0.3"}}, {1, 1, 1, 1, 0, 1});
}

TEST(ClippedPg, WeightsOfSequencesByHand) {
  const auto token = [](double advantage, double weight) {
    return TinyToken{advantage, 0, std::log(weight)};
  };
  const ObjectiveBatch data = tiny({{token(1, 4), token(2, 1)}});
  const auto expect_weight = [&](const Options& options, double first, double second) {
    const Options corrects{{"use_importance_sampling_correction", "true"}};
    expect_by_hand(both(both(options, corrects), kNoKl), data, -(first + 2 * second) / 2,
                   {-first / 2, -second});
  };
  expect_weight({}, 4, 1);
  expect_weight({{"rollout_is", "\"sequence\""}}, 4, 4);
  expect_weight({{"rollout_is", "\"geometric\""}}, 2, 2);
  // The token with weight 4 is rejected; it counts in the weight of the sequence, or does not.
  const Options rejects = rejection("\"token_k1\"", "3", {{"rollout_is", "\"sequence\""}});
  expect_weight(rejects, 0, 4);
  expect_weight(both({{"token_masks_first", "true"}}, rejects), 0, 1);
  // It vetoes in either order.
  for (const char* first : {"true", "false"}) {
    expect_weight(both({{"token_masks_first", first}, {"veto_ratio_max", "3.5"}}, rejects), 0, 0);
  }
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

TEST(ClippedPg, ImportanceWeightsByHand) {
  const auto token = [](double advantage, double weight) {
    return TinyToken{advantage, 0, std::log(weight)};
  };
  const ObjectiveBatch data =
      tiny({{token(1, 0.5), token(1, 1), token(-1, 3)}, {token(1, 1.1), token(1, 1.0)}});
  const Options corrected{{"use_importance_sampling_correction", "true"}};
  expect_by_hand(both(kNoKl, corrected), data, (-0.5 - 1 + 3 - 1.1 - 1) / 5,
                 {-0.1, -0.2, 0.6, -0.22, -0.2}, {{"sampling_importance_ratio", 6.6 / 5}});
  expect_by_hand(both(kNoKl, truncation("\"tis\"")), data, (-0.9 - 1 + 1.2 - 1.1 - 1) / 5,
                 {-0.18, -0.2, 0.24, -0.22, -0.2},
                 {{"sampling_importance_ratio", 5.2 / 5}, {"is_oob_ratio", 2.0 / 5}});
  expect_by_hand(both(kNoKl, truncation("\"icepop\"")), data, (-1 - 1.1 - 1) / 5,
                 {0, -0.2, 0, -0.22, -0.2},
                 {{"sampling_importance_ratio", 3.1 / 5}, {"is_oob_ratio", 2.0 / 5}});
  // Geometric means: 1.5 ^ (1/2) = 1.22 is inside, 4 ^ (1/2) is not.
  const ObjectiveBatch masked = tiny({{token(1, 0.5), token(1, 3)}, {token(1, 4), token(1, 1)}});
  expect_by_hand(both({{"truncated_importance_sampling_ratio", "1.3"}},
                      both(kNoKl, truncation("\"seq-mask-tis\""))),
                 masked, -3.5 / 4, {-0.5 / 4, -3.0 / 4, 0, 0},
                 {{"sampling_importance_ratio", 3.5 / 4}, {"is_oob_ratio", 0.5}});
  // Under GSPO the weights of whole sequences, 1.5 and 1.1, count: mean losses -1/3 and -1.
  expect_by_hand(both(kNoKl, both(kGspo, corrected)), data, (-1.5 / 3 - 1.1) / 2,
                 {-1.5 / 18, -1.5 / 18, -1.5 / 18, -1.1 / 4, -1.1 / 4},
                 {{"sampling_importance_ratio", 2.6 / 2}});
  expect_by_hand(both(kNoKl, both(kGspo, truncation("\"icepop\""))), data, -1.1 / 2,
                 {0, 0, 0, -1.1 / 4, -1.1 / 4},
                 {{"sampling_importance_ratio", 1.1 / 2}, {"is_oob_ratio", 0.5}});
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

TEST(ClippedPg, NormalisedWeightsByHand) {
  // Weights of 2, 1 and 0.5: of sequences 2 and 0.5; a sequence without a target has none.
  const double two = std::log(2);
  const ObjectiveBatch data = tiny({{{1, 0, two}, {2, 0, 0}}, {{3, 0, -two}}, {}});
  const Options options = both(kNoKl, {{"rollout_is_batch_normalize", "true"},
                                       {"use_importance_sampling_correction", "true"}});
  expect_by_hand(options, data, -5.5 / 3.5, {-2 / 3.5, -2 / 3.5, -1.5 / 3.5},
                 {{"sampling_importance_ratio", 3.5 / 3}});
  expect_by_hand(both(options, {{"rollout_is", "\"sequence\""}}), data, -(1.6 * 3 + 0.4 * 3) / 3,
                 {-1.6 / 3, -3.2 / 3, -1.2 / 3});
  // After truncation: 1.2, 1, 0.9.
  expect_by_hand(both(options, truncation("\"tis\"")), data, -(1.2 + 2 + 2.7) / 3.1,
                 {-1.2 / 3.1, -2 / 3.1, -2.7 / 3.1});
  // All weights are 0, and stay so.
  const Options none{{"truncated_importance_sampling_ratio", "6"},
                     {"truncated_importance_sampling_ratio_min", "5"}};
  expect_by_hand(both(none, both(options, truncation("\"icepop\""))), data, 0, {0, 0, 0});
}

TEST(ClippedPg, WeightsThatDoNotExistByHand) {
  ObjectiveBatch data = tiny({{{1, 0}, {2, 0}, {3, 0, std::log(2)}}, {{4, 0}}});
  std::vector<float>& generation =
      data.batch.inputs[static_cast<std::size_t>(TokenInput::generation_logprobs)];
  generation[1] = -HUGE_VALF;
  generation[2] = std::nanf("");
  const Options zero = both(kNoKl, {{"nonfinite_generation_logprobs", "\"zero_weight\""},
                                    {"use_importance_sampling_correction", "true"}});
  // Weights of 0, 0, 2 and 1.
  expect_by_hand(zero, data, -10.0 / 4, {0, 0, -6.0 / 4, -4.0 / 4},
                 {{"sampling_importance_ratio", 3.0 / 4}, {"token_mult_prob_error", 3.0 / 4}});
  // The lower bound raises them as it raises any.
  expect_by_hand(both(zero, truncation("\"tis\"")), data, -(0.9 + 1.8 + 3.6 + 4) / 4,
                 {-0.9 / 4, -1.8 / 4, -3.6 / 4, -4.0 / 4});
  // One of them makes the weight of its sequence 0.
  expect_by_hand(both(zero, kGspo), data, -2, {0, 0, 0, -2}, {{"sampling_importance_ratio", 0.5}});
  // The mean of log weights is ln 2 / 3, of a weight of 1.26.
  const Options masks = both(zero, truncation("\"seq-mask-tis\""));
  expect_by_hand(masks, data, -1, {0, 0, 0, -1}, {{"is_oob_ratio", 0.5}});
  expect_by_hand(both({{"truncated_importance_sampling_ratio", "1.3"}}, masks), data, -10.0 / 4,
                 {0, 0, -6.0 / 4, -4.0 / 4}, {{"is_oob_ratio", 0}});
  // Infinity is no log-probability either; the bounds drop the weights of 0 and 2.
  generation[1] = HUGE_VALF;
  expect_by_hand(both(zero, truncation("\"icepop\"")), data, -4.0 / 4, {0, 0, 0, -1});
}

TEST(ClippedPg, RejectionsReadNoWeightThatDoesNotExistByHand) {
  // Weights of 2, none, 1 and 1: with the one that lacks the sum would not be a number.
  ObjectiveBatch data = tiny({{{1, 0, std::log(2)}, {2, 0}, {3, 0}}, {{-4, 0}}});
  std::vector<float>& generation =
      data.batch.inputs[static_cast<std::size_t>(TokenInput::generation_logprobs)];
  const Options zero = both(kNoKl, {{"nonfinite_generation_logprobs", "\"zero_weight\""},
                                    {"use_importance_sampling_correction", "true"}});
  const auto expect_dropped = [&](const Options& rule, bool first, double fraction) {
    const double one = first ? 0 : 1;
    expect_by_hand(both(rule, zero), data, one * -5.0 / 4 + 1,
                   {one * -2.0 / 4, 0, one * -3.0 / 4, 1},
                   {{"rollout_rs_masked_fraction", fraction}});
  };
  for (const float value : {-HUGE_VALF, HUGE_VALF, std::nanf("")}) {
    generation[2] = value;
    expect_dropped(rejection("\"seq_sum_k1\"", "1.9"), true, 3.0 / 4);
    expect_dropped(rejection("\"seq_sum_k1\"", "2.1"), false, 0);
    // The mean is over all three tokens: ln 2 / 3.
    expect_dropped(rejection("\"seq_mean_k1\"", "1.25"), true, 3.0 / 4);
    expect_dropped(rejection("\"seq_mean_k1\"", "1.27"), false, 0);
    expect_dropped(rejection("\"seq_max_k2\"", "0.2"), true, 3.0 / 4);
    expect_dropped(rejection("\"seq_max_k2\"", "0.3"), false, 0);
    expect_dropped(rejection("\"token_k2\"", "0.3"), false, 0);
    expect_dropped({{"veto_ratio_max", "1.9"}}, true, 3.0 / 4);
    expect_dropped({{"veto_ratio_max", "2.1"}, {"veto_ratio_min", "0.5"}}, false, 0);
  }
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
