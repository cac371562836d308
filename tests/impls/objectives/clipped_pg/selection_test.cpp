// SPDX-License-Identifier: Apache-2.0
// Selections of tokens over a pack, by hand: thresholds, ties, shares under one token, lots, and
// the sides of a threshold that the truth allows.
#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "../problem/expect_error.h"
#include "clipped_pg_cases.h"
#include "harness/problem/batch/sharding.h"
#include "impls/objectives/clipped_pg/selection/clipped_pg_selection.h"
#include "objective_batch.h"

namespace lossgrid {
namespace {

/// A valid token, with prev = x unless `ratio_log` sets it apart.
struct PickedToken {
  double x = -2;
  double entropy = 1;
  double advantage = 1;
  double ratio_log = 0;  // x - prev
  double generation_minus_prev = 0;
};

ObjectiveBatch picked_batch(const std::vector<std::vector<PickedToken>>& sequences) {
  return batch_by_hand(
      sequences, [](const PickedToken& token, ObjectiveBatch& data, std::int64_t slot) {
        data.logprobs[slot - 1] = static_cast<float>(token.x);
        data.terms[RowTerm::entropy][slot - 1] = static_cast<float>(token.entropy);
        set_input(data, TokenInput::advantages, slot, token.advantage);
        set_input(data, TokenInput::prev_logprobs, slot, token.x - token.ratio_log);
        set_input(data, TokenInput::generation_logprobs, slot,
                  token.x - token.ratio_log + token.generation_minus_prev);
        set_input(data, TokenInput::reference_policy_logprobs, slot, token.x);
      });
}

/// Returns the selected tokens, counted from 0 in the order of the batch. Expects that steps and
/// truth agree, for the whole pack and for parts of it.
std::vector<int> selected_by(const Options& options, const ObjectiveBatch& data) {
  const auto objective = make_clipped_pg(both(kNoKl, options));
  const ObjectiveTruth truth = objective_truth(*objective, data);
  for (const Parts& parts : {whole(data), dealt(data, 3, 5)}) {
    EXPECT_EQ(differences(run_objective(*objective, data, parts), truth, 1e-12), "")
        << shown(options);
  }
  const PackedBatch batch = with_needed(data.batch, objective->needs());
  const ShiftedBatch pack = shift_targets(batch);
  HeldRows held(data, pack, *objective, whole(data)[0]);
  std::vector<double> numbers(pack.rows() * objective->sizes().selection_numbers);
  if (!numbers.empty()) objective->selection_numbers(held.tokens, numbers);
  std::vector<std::uint8_t> selected(pack.rows(), 2);
  objective->select(batch, numbers, selected);
  std::vector<int> tokens;
  int next = 0;
  for (std::size_t row = 0; row < pack.rows(); ++row) {
    if (pack.valid[row] == 0) continue;
    if (selected[row] != 0) tokens.push_back(next);
    ++next;
  }
  return tokens;
}

ObjectiveBatch with_entropies(const std::vector<std::vector<double>>& entropies) {
  std::vector<std::vector<PickedToken>> sequences(entropies.size());
  for (std::size_t i = 0; i < entropies.size(); ++i) {
    for (const double entropy : entropies[i]) sequences[i].push_back({.entropy = entropy});
  }
  return picked_batch(sequences);
}

using Tokens = std::vector<int>;

TEST(Selection, EntropiesUnderTheQuantileAreDropped) {
  // Place 3 of (0, ..., 4): the threshold is 0.875, an entropy that stays.
  const ObjectiveBatch data = with_entropies({{0.5, 1}, {0.25, 0.875, 0.125}});
  EXPECT_EQ(selected_by(top_entropy("0.25"), data), (Tokens{0, 2, 4}));
  // Place 2.4: the threshold is 0.65, between two of them.
  EXPECT_EQ(selected_by(top_entropy("0.4"), data), (Tokens{0, 2, 4}));
  EXPECT_EQ(selected_by(top_entropy("0.5"), data), (Tokens{2, 4}));
  EXPECT_EQ(selected_by(top_entropy("0"), data), (Tokens{0, 2, 3, 4}));
  // All of the same entropy are on it.
  EXPECT_EQ(selected_by(top_entropy("0.25"), with_entropies({{1, 1}, {1}})), Tokens{});
  EXPECT_EQ(selected_by(top_entropy("0.5"), with_entropies({{1, 2}, {2, 3, 2}})), Tokens{0});
}

TEST(Selection, OneTokenIsAllThatThereIs) {
  const ObjectiveBatch data = picked_batch({{{.generation_minus_prev = 5}}, {}});
  EXPECT_EQ(selected_by(top_entropy("0"), data), Tokens{});
  EXPECT_EQ(selected_by(second_moment("0.1"), data), Tokens{});
  EXPECT_EQ(selected_by(kl_cov("0.0002"), data), Tokens{0});
  EXPECT_EQ(selected_by(clip_cov("0.0002"), data), Tokens{});
}

TEST(Selection, LargestSecondMomentsAreDroppedUntilTheMeanIsSmall) {
  const auto moments = [](const std::vector<double>& distances) {
    std::vector<PickedToken> tokens;
    for (const double distance : distances) tokens.push_back({.generation_minus_prev = distance});
    return picked_batch({tokens, {}});
  };
  // Squares 0.25, 0.0625, 1, 0, 0.25; means 0.3125, 0.140625, 0.104166.., 0.03125, 0.
  const ObjectiveBatch data = moments({0.5, 0.25, -1, 0, -0.5});
  EXPECT_EQ(selected_by(second_moment("0.4"), data), Tokens{});
  EXPECT_EQ(selected_by(second_moment("0.3125"), data), Tokens{2});     // below, not at it
  EXPECT_EQ(selected_by(second_moment("0.14"), data), (Tokens{0, 2}));  // the first of two
  EXPECT_EQ(selected_by(second_moment("0.1"), data), (Tokens{0, 2, 4}));
  EXPECT_EQ(selected_by(second_moment("0.03"), data), (Tokens{0, 1, 2, 4}));
  // The last one stays, whatever it is.
  EXPECT_EQ(selected_by(second_moment("0.01"), moments({1, 1, 0.5})), (Tokens{0, 1}));
}

/// Tokens of version 1 of 5, x - generation apart: prev is generation + 3/4 of that.
ObjectiveBatch of_old_version(const std::vector<PickedToken>& tokens) {
  ObjectiveBatch data = picked_batch({tokens, {}});
  for (std::int64_t slot = 1; slot <= std::ssize(tokens); ++slot) {
    const PickedToken& token = tokens[static_cast<std::size_t>(slot - 1)];
    set_input(data, TokenInput::prev_logprobs, slot, kPoison);  // nobody has it
    set_input(data, TokenInput::generation_logprobs, slot, token.x - token.ratio_log);
    set_input(data, TokenInput::versions, slot, 1);
  }
  return data;
}

TEST(Selection, GoesByTheProximalPolicyThatIsApproximated) {
  const Options loglinear = proximal("\"loglinear\"");
  // prev - generation is 0.75, 0, -0.375, 0.75: squares 0.5625, 0, 0.140625, 0.5625.
  const ObjectiveBatch moments =
      of_old_version({{.ratio_log = 1}, {}, {.ratio_log = -0.5}, {.ratio_log = 1}});
  EXPECT_EQ(selected_by(second_moment("0.3", loglinear), moments), Tokens{0});
  EXPECT_EQ(selected_by(second_moment("0.2", loglinear), moments), (Tokens{0, 3}));
  EXPECT_EQ(selected_by(second_moment("0.07", loglinear), moments), (Tokens{0, 2, 3}));
  // x - prev is a fourth of x - generation: a ratio of e^0.25 is clipped, one of e^0.15 is not.
  const auto candidates = [](double above, double below) {
    return of_old_version({{.x = -2.5, .advantage = -1, .ratio_log = below},
                           {.x = -1.5, .advantage = 1, .ratio_log = above}});
  };
  const Options all = clip_cov("1", loglinear);
  EXPECT_EQ(selected_by(all, candidates(0.6, -0.6)), (Tokens{0, 1}));
  EXPECT_EQ(selected_by(all, candidates(1, -0.6)), Tokens{0});
  EXPECT_EQ(selected_by(all, candidates(0.6, -1)), Tokens{1});
}

/// Advantages around their mean 0, log-probabilities around their mean -2.
ObjectiveBatch with_covariances() {
  // Covariances 0.5, -0.5, 1, 0.25 with a ratio that PPO clips, 0.5, -0.25, 0.
  return picked_batch(
      {{{.x = -2.5, .advantage = -1},
        {.x = -1.5, .advantage = -1},
        {.x = -3, .advantage = -1},
        {.x = -1.75, .advantage = 1, .ratio_log = 0.5}},
       {{.x = -1.5, .advantage = 1}, {.x = -1.75, .advantage = -1}, {.x = -2, .advantage = 2}}});
}

TEST(Selection, TokensOfTheLargestCovarianceHaveAPenalty) {
  const ObjectiveBatch data = with_covariances();
  EXPECT_EQ(selected_by(kl_cov("0.0002"), data), Tokens{2});
  EXPECT_EQ(selected_by(kl_cov("0.28"), data), Tokens{2});  // 1.96 tokens
  EXPECT_EQ(selected_by(kl_cov("1"), data), (Tokens{0, 1, 2, 3, 4, 5, 6}));
  // The penalty is c |x - prev|, without clip bounds.
  const ObjectiveBatch one = picked_batch({{{.advantage = 1, .ratio_log = 0.5}}});
  const ObjectiveRun run = run_objective(*make_clipped_pg(both(kNoKl, kl_cov("1"))), one);
  EXPECT_NEAR(run.loss, -std::exp(0.5) + 0.3 * 0.5, 1e-6);
  EXPECT_NEAR(run.gradient[0], -std::exp(0.5) + 0.3, 1e-6);
}

TEST(Selection, LotsAreDrawnAmongCandidates) {
  const ObjectiveBatch data = with_covariances();
  const auto drawn = [&](const char* ratio, const char* seed) {
    return selected_by(clip_cov(ratio, {{"clip_cov_seed", seed}, {"clip_cov_lb", "0.1"}}), data);
  };
  // Token 2 is above, 3 is clipped, 1, 5 and 6 are below.
  EXPECT_EQ(drawn("1", "0"), drawn("1", "1"));
  const Tokens candidates = drawn("1", "0");
  EXPECT_EQ(candidates, (Tokens{0, 4}));
  std::set<Tokens> seen;
  for (const char* seed : {"0", "1", "2", "3", "4", "5", "6", "7"}) {
    const Tokens one = drawn("0.0002", seed);
    EXPECT_EQ(one.size(), 1u);
    EXPECT_TRUE(std::includes(candidates.begin(), candidates.end(), one.begin(), one.end()));
    seen.insert(one);
  }
  EXPECT_EQ(seen.size(), 2u);
}

TEST(Selection, DoesNotDependOnThePaddingOfThePack) {
  ObjectiveBatch data = with_covariances();
  const ClippedPgOptions options =
      ClippedPgOptions::from(clip_cov("0.15", {{"clip_cov_lb", "0.1"}}));
  const auto places_of = [&](const PackedBatch& batch, const std::vector<double>& numbers) {
    std::vector<std::uint8_t> selected(numbers.size());
    select_tokens<ClippedPgFormulas>(options, selection_tokens(batch, numbers), selected);
    std::vector<std::pair<std::int64_t, std::int64_t>> places;  // sequence, row in it
    for (std::int64_t i = 0; i < batch.sequences(); ++i) {
      for (std::int64_t t = 0; t < batch.padded_length(i); ++t) {
        if (selected[batch.cu_seqlens_padded[i] + t] != 0) places.emplace_back(i, t);
      }
    }
    return places;
  };
  const std::vector<double> numbers(data.logprobs.begin(), data.logprobs.end());
  PackedBatch padded = data.batch;
  padded.cu_seqlens_padded = {0, 8, 16};
  std::vector<double> padded_numbers(16, 0.0);
  std::copy_n(numbers.begin(), 5, padded_numbers.begin());
  std::copy_n(numbers.begin() + 5, 4, padded_numbers.begin() + 8);
  const auto places = places_of(data.batch, numbers);
  EXPECT_EQ(places.size(), 1u);
  EXPECT_EQ(places_of(padded, padded_numbers), places);
}

/// Expects that the truth allows the gradient of each side for the rows of these tokens alone.
void expect_either(const Options& options, const ObjectiveBatch& data, const Tokens& either) {
  const auto objective = make_clipped_pg(both(kNoKl, options));
  const ObjectiveTruth truth = objective_truth(*objective, data, 8);
  int next = 0;
  for (std::int64_t row = 0; row < data.rows(); ++row) {
    if (std::isnan(data.logprobs[row])) continue;
    const bool is_either = std::count(either.begin(), either.end(), next++) > 0;
    ASSERT_EQ(truth.grad_sides.contains(row), is_either) << shown(options) << row;
    if (!is_either) continue;
    const std::vector<Enclosure>& sides = truth.grad_sides.at(row);
    EXPECT_TRUE(std::any_of(sides.begin(), sides.end(),
                            [](const Enclosure& side) { return side.contains(0); }));
    EXPECT_TRUE(std::any_of(sides.begin(), sides.end(),
                            [](const Enclosure& side) { return !side.contains(0); }));
    EXPECT_GT(truth.loss.radius(), 0.05);
  }
}

TEST(Selection, NearAThresholdBothSidesAreRight) {
  // The two in the middle may change places, so that either is dropped.
  expect_either(top_entropy("0.25"), with_entropies({{0.5, 1}, {1.0000001, 2, 0.125}}), {1, 2});
  expect_either(top_entropy("0.25"), with_entropies({{0.5, 1}, {1.01, 2, 0.125}}), {});
  // Covariances of 0.5 and -0.5.
  const auto candidates = [](double x) {
    return picked_batch({{{.x = -2.5, .advantage = -1}, {.x = -1.5, .advantage = -1}},
                         {{.x = x, .advantage = 1}, {.x = -2.5, .advantage = 1}}});
  };
  const Options at_bound = clip_cov("1", {{"clip_cov_lb", "0.5"}, {"clip_cov_ub", "2"}});
  expect_either(at_bound, candidates(-1.5), {0, 2});
  const Options below = clip_cov("1", {{"clip_cov_lb", "0.45"}, {"clip_cov_ub", "2"}});
  expect_either(below, candidates(-1.5), {});
  EXPECT_EQ(selected_by(below, candidates(-1.5)), (Tokens{0, 2}));
}

TEST(SelectionOptions, HaveTheDefaultsOfTheirFrameworks) {
  const ClippedPgOptions options = ClippedPgOptions::from({});
  const SelectionOptions& o = options;
  EXPECT_EQ(o.clip_cov_ratio, 0.0002);
  EXPECT_EQ(o.clip_cov_lb, 1);
  EXPECT_EQ(o.clip_cov_ub, 5);
  EXPECT_EQ(o.clip_cov_seed, 0);
  EXPECT_EQ(o.kl_cov_ratio, 0.0002);
  EXPECT_EQ(o.ppo_kl_coef, 0.1);
  EXPECT_EQ(o.top_entropy_quantile, 1);
  EXPECT_EQ(o.m2_threshold, std::nullopt);
  EXPECT_FALSE(options.selects() || options.needs().selects || options.needs().whole_batch);
}

TEST(SelectionOptions, AskForTheWholeBatchAndForWhatTheyAreBy) {
  for (const Options& options : selections()) {
    const ClippedPgOptions parsed = ClippedPgOptions::from(options);
    const ObjectiveNeeds needs = parsed.needs();
    EXPECT_TRUE(needs.selects && needs.whole_batch) << shown(options);
    EXPECT_EQ(needs.draws, parsed.selection() == Selection::clip_cov);
    EXPECT_EQ(needs.terms.has(RowTerm::entropy),
              options.contains("top_entropy_quantile") || options.contains("entropy_coefficient"));
    // Second moments are those of inputs, which no rank has to send, unless prev is approximated.
    const bool by_inputs =
        options.contains("m2_threshold") && !options.contains("prox_logp_method");
    EXPECT_EQ(make_clipped_pg(options)->sizes().selection_numbers, by_inputs ? 0 : 1);
  }
}

TEST(SelectionOptions, BadValuesAndCombinationsWithoutMeaningAreRefused) {
  const auto refused = [](const Options& options, const std::vector<std::string>& parts) {
    expect_bad_input([&] { ClippedPgOptions::from(options); }, parts);
  };
  refused({{"clip_cov_ratio", "0"}}, {"clip_cov_ratio", "(0, 1]"});
  refused({{"kl_cov_ratio", "1.5"}}, {"kl_cov_ratio", "(0, 1]"});
  refused({{"clip_cov_lb", "5"}}, {"clip_cov_lb", "clip_cov_ub"});
  refused({{"clip_cov_seed", "0.5"}}, {"clip_cov_seed", "whole number"});
  refused({{"ppo_kl_coef", "-1"}}, {"ppo_kl_coef"});
  refused({{"top_entropy_quantile", "1.1"}}, {"top_entropy_quantile", "[0, 1]"});
  refused({{"m2_threshold", "0"}}, {"m2_threshold", "above 0"});
  refused(top_entropy("0.2", second_moment("0.1")), {"top_entropy_quantile", "m2_threshold"});
  for (const Options& loss : {clip_cov("0.1"), kl_cov("0.1")}) {
    refused(top_entropy("0.2", loss), {"clip_cov", "kl_cov", "top_entropy_quantile"});
    refused(second_moment("0.2", loss), {"clip_cov", "kl_cov", "m2_threshold"});
    refused(both(loss, kDual), {"ratio_clip_c", "policy_loss"});
    refused(both(loss, kCispo), {"use_cispo", "policy_loss"});
    refused(both(loss, kGspo), {"sequence_level_importance_ratios", "policy_loss"});
  }
  refused(top_entropy("0.2", kGspo), {"top_entropy_quantile", "gspo_token"});
  refused(top_entropy("0.2", kGeoMean), {"geo_mean", "top_entropy_quantile"});
  refused(second_moment("0.2", kOnPolicy), {"m2_threshold", "force_on_policy_ratio"});
  refused(second_moment("0.2", {{"use_importance_sampling_correction", "true"},
                                {"nonfinite_generation_logprobs", "\"zero_weight\""}}),
          {"m2_threshold", "nonfinite_generation_logprobs"});
}

}  // namespace
}  // namespace lossgrid
