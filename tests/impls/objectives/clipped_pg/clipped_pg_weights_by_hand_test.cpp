// SPDX-License-Identifier: Apache-2.0
// Examples of importance weights, their bounds and rejection, computed by hand.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "clipped_pg_by_hand.h"

namespace lossgrid {
namespace {

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

}  // namespace
}  // namespace lossgrid
