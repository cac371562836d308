// SPDX-License-Identifier: Apache-2.0
// The truth of `clipped_pg` against finite differences, against itself under options that must
// agree, and its branches and intervals.
#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "clipped_pg_cases.h"
#include "objective_batch.h"

namespace lossgrid {
namespace {

/// d loss / d row by central differences of the truth's loss; NaN near a kink.
std::vector<double> numeric_gradient(const Objective& objective, const ObjectiveBatch& data) {
  const PackedBatch batch = with_needed(data.batch, objective.needs());
  const auto loss = [&](std::int64_t row, double step) {
    std::vector<TokenTruth> rows = token_truths(data);
    rows[row].logprob = Enclosure(rows[row].logprob.value + step);
    return objective.truth(batch, rows).loss.value;
  };
  constexpr double kStep = 1e-5;
  std::vector<double> gradient;
  for (std::int64_t row = 0; row < data.rows(); ++row) {
    const double above = (loss(row, kStep) - loss(row, 0)) / kStep;
    const double below = (loss(row, 0) - loss(row, -kStep)) / kStep;
    gradient.push_back(std::abs(above - below) < 1e-4 ? (above + below) / 2 : kPoison);
  }
  return gradient;
}

TEST(ClippedPgTruth, GradientOfTheTruthIsThatOfFiniteDifferences) {
  const Options kWide{{"truncated_importance_sampling_ratio", "5"},
                      {"truncated_importance_sampling_ratio_min", "0.1"}};
  // Without terms whose gradient is not the derivative of their value: a detached factor.
  const std::vector<Options> differentiable = {
      kNoKl,
      both(kNoKl, kDual),
      both(kNoKl, kReinforce),
      both(kNoKl, kSequenceMean),
      both(kNoKl, kSapo),
      both(kNoKl, kLogBounds),
      both(kNoKl, kGeoMean),
      both(kNoKl, both({{"ratio_clip_max", "0.4"}}, kGeoMean)),
      both(kNoKl, both(kGeoMean, kLogBounds)),
      both(policy_loss("\"geo_mean\"", kNoKl), kAggregations[4]),
      both(kNoKl, kDro),
      both(kNoKl, both(kDro, kSequenceMean)),
      both(kNoKl, rejection("\"seq_mean_k2\"", "0.1", kGspo)),
      both(kNoKl, rejection("\"token_k3\"", "0.05", kGspo)),
      both(kNoKl, rejection("\"token_k2\"", "0.05")),
      both(kNoKl, both(kLogBounds, kGspo)),
      kl_gradient("\"k1\"", "\"value\""),
      kl_gradient("\"abs\"", "\"value\""),
      kl_gradient("\"k3\"", "\"value\""),
      kl_gradient("\"k2\"", "\"ratio\""),
      kl_gradient("\"k3\"", "\"ratio\""),
      both(kNoKl, both(kSapo, kGspo)),
      both(kNoKl, kGspo),
      both(both(kNoKl, kGspo), kDual),
      both(kNoKl, kNll),
      both(kNoKl, truncation("\"tis\"")),
      both(kWide, both(kNoKl, both(kGspo, truncation("\"icepop\"")))),
      both(kWide, both(kNoKl, truncation("\"seq-mask-tis\""))),
      both(kNoKl, both({{"rollout_is_batch_normalize", "true"}}, truncation("\"tis\""))),
      both(kNoKl,
           both({{"rollout_is_batch_normalize", "true"}}, both(kGspo, truncation("\"tis\"")))),
      both(kNoKl, kAggregations[1]),
      both(kNoKl, kAggregations[2]),
      both(both(kNoKl, kGspo), kAggregations[0]),
      both(both(kNoKl, kGspo), kAggregations[3]),
      both(both(kNoKl, kGspo), kAggregations[6]),
      both(both(kNoKl, kGspo), kAggregations[7]),
      both(kKlOfGeneration, kAggregations[8]),
      both(kKlOfGeneration, kAggregations[4]),
      kKlOfGeneration,
      both(kKlOfGeneration, {{"reference_policy_kl_type", "\"k1\""}}),
      both(kKlOfGeneration, {{"kl_output_clamp_value", "0.1"}}),
      both(kKlOfGeneration, kSequenceMean),
      both(both(kNoKl, kGspo), kAggregations[9]),
      both(kNoKl, kAggregations[10]),
      both(kNoKl, kBinaryTv),
      both(kNoKl, both(kBinaryKl, kLogBounds)),
      both(kNoKl, clip_cov("0.1", {{"ratio_clip_max", "2"}, {"ratio_clip_min", "0.9"}})),
      both(kNoKl, kl_cov("0.3")),
      both(kNoKl, kl_cov("0.0002")),
      both(kNoKl, top_entropy("0.7", {{"ratio_clip_max", "2"}, {"ratio_clip_min", "0.9"}})),
      both(kNoKl, second_moment("0.03"))};
  std::uint64_t seed = 300;
  for (Options options : differentiable) {
    const ObjectiveBatch data = batch_of(++seed);
    const auto objective = make_clipped_pg(options);
    const ObjectiveTruth truth = objective_truth(*objective, data);
    const std::vector<double> numeric = numeric_gradient(*objective, data);
    int checked = 0;
    for (std::size_t row = 0; row < numeric.size(); ++row) {
      if (std::isnan(numeric[row])) continue;
      ASSERT_NEAR(truth.grad_logprob[row].value, numeric[row], 1e-8) << shown(options) << row;
      checked += truth.grad_logprob[row].value != 0 ? 1 : 0;
    }
    EXPECT_GT(checked, 5) << shown(options);
  }
}

// The gradient of GSPO-token is that of the ratio of one token, the others' without gradient; it
// is GSPO's where advantages are the same in a sequence.
TEST(ClippedPgTruth, GspoTokenIsGspoForEqualAdvantages) {
  ObjectiveBatch data = batch_of(402);
  std::vector<float>& advantages = data.batch.inputs[static_cast<int>(TokenInput::advantages)];
  for (std::int64_t i = 0; i < data.batch.sequences(); ++i) {
    for (std::int64_t t = data.batch.cu_seqlens[i]; t < data.batch.cu_seqlens[i + 1]; ++t) {
      advantages[t] = static_cast<float>(i % 2 == 0 ? 1 + i : -1 - i);
    }
  }
  const auto gspo = make_clipped_pg(both(kNoKl, kGspo));
  const auto by_token = make_clipped_pg(both({{"gspo_token", "true"}}, both(kNoKl, kGspo)));
  EXPECT_EQ(differences(run_objective(*by_token, data), objective_truth(*gspo, data), 1e-12), "");
  EXPECT_NE(differences(run_objective(*by_token, batch_of(402)),
                        objective_truth(*gspo, batch_of(402)), 1e-12),
            "");
}

// The gradient goes through the ratio alone: it is that of previous log-probabilities which are the
// approximated ones, whose gradient is tested above.
TEST(ClippedPgTruth, ApproximatedPoliciesAreConstants) {
  for (const Options& more : {kNoKl, both(kNoKl, kGspo), both(kNoKl, truncation("\"tis\""))}) {
    ObjectiveBatch data = batch_of(404);
    const auto approximated = make_clipped_pg(proximal("\"loglinear\"", more));
    const ObjectiveTruth truth = objective_truth(*approximated, data);
    const auto input = [&](TokenInput which) -> std::vector<float>& {
      return data.batch.inputs[static_cast<std::size_t>(which)];
    };
    for (std::int64_t i = 0; i < data.batch.sequences(); ++i) {
      for (std::int64_t t = data.batch.cu_seqlens[i] + 1; t < data.batch.cu_seqlens[i + 1]; ++t) {
        const double v = input(TokenInput::versions)[t];
        const double q = input(TokenInput::generation_logprobs)[t];
        const double share = v < 0 || v > 4 ? 0 : (4 - v) / (5 - v);
        input(TokenInput::prev_logprobs)[t] =
            static_cast<float>(q + share * (data.logprobs[t - 1] - q));
      }
    }
    const ObjectiveTruth given = objective_truth(*make_clipped_pg(more), data);
    EXPECT_NEAR(truth.loss.value, given.loss.value, 1e-6);
    int moved = 0;
    for (std::size_t row = 0; row < given.grad_logprob.size(); ++row) {
      ASSERT_NEAR(truth.grad_logprob[row].value, given.grad_logprob[row].value, 1e-6) << row;
      moved += given.grad_logprob[row].value != 0 ? 1 : 0;
    }
    EXPECT_GT(moved, 5);
  }
}

// rho k3 has the gradient rho (x - ref): the terms of k3 cancel. Straight through is k2's.
TEST(ClippedPgTruth, KlGradientsAreThoseOfTheirFormulas) {
  const ObjectiveBatch data = batch_of(403);
  const auto gradient_of = [&](const Options& options) {
    Options alone = options;
    alone["reference_policy_kl_penalty"] = "1";
    Options without = alone;
    without["reference_policy_kl_penalty"] = "0";
    const ObjectiveTruth with_kl = objective_truth(*make_clipped_pg(alone), data);
    const ObjectiveTruth policy = objective_truth(*make_clipped_pg(without), data);
    std::vector<double> difference;
    for (std::size_t row = 0; row < with_kl.grad_logprob.size(); ++row) {
      difference.push_back(with_kl.grad_logprob[row].value - policy.grad_logprob[row].value);
    }
    return difference;
  };
  const auto tokens = static_cast<double>(data.batch.denominators.valid_tokens);
  const std::vector<double> by_ratio = gradient_of(kl_gradient("\"k3\"", "\"ratio\""));
  const std::vector<double> of_k1 = gradient_of(kl_gradient("\"k1\"", "\"straight-through\""));
  const std::vector<double> of_k2 = gradient_of(kl_gradient("\"k2\"", "\"value\""));
  const auto input = [&](TokenInput which, std::int64_t token) {
    return static_cast<double>(data.batch.inputs[static_cast<std::size_t>(which)][token]);
  };
  for (std::int64_t row = 0; row + 1 < data.rows(); ++row) {
    if (std::isnan(data.logprobs[row])) continue;
    const double x = data.logprobs[row];
    const double distance = x - input(TokenInput::reference_policy_logprobs, row + 1);
    const double rho = std::exp(x - input(TokenInput::prev_logprobs, row + 1));
    EXPECT_NEAR(by_ratio[row], rho * distance / tokens, 1e-12);
    EXPECT_NEAR(of_k1[row], distance / tokens, 1e-12);
    EXPECT_NEAR(of_k2[row], distance / tokens, 1e-12);
  }
}

TEST(ClippedPgTruth, GradientByEntropyIsThatOfFiniteDifferences) {
  for (const Options& options : {kNoKl, both(kNoKl, kSequenceMean), both(kNoKl, kReinforce)}) {
    const auto objective = make_clipped_pg(both(options, kEntropyBonus));
    const ObjectiveBatch data = batch_of(77);
    const ObjectiveTruth truth = objective_truth(*objective, data);
    int checked = 0;
    for (std::size_t row = 0; row < truth.grad_terms[RowTerm::entropy].size(); ++row) {
      if (std::isnan(data.logprobs[row])) continue;
      const auto loss_at = [&](double step) {
        std::vector<TokenTruth> rows = token_truths(data);
        Enclosure& entropy = rows[row].terms[RowTerm::entropy];
        entropy = entropy.value + step;
        return objective->truth(with_needed(data.batch, objective->needs()), rows).loss.value;
      };
      const double numeric = (loss_at(0.5) - loss_at(-0.5)) / 1;  // linear in the entropy
      ASSERT_NEAR(truth.grad_terms[RowTerm::entropy][row].value, numeric, 1e-12)
          << shown(options) << row;
      EXPECT_LT(numeric, 0);
      ++checked;
    }
    EXPECT_GT(checked, 5) << shown(options);
  }
}

// If generation and current policy agree, the score function and the importance weight of the KL
// have the same value and gradient.
TEST(ClippedPgTruth, ScoreFunctionIsTheImportanceWeightOfEqualPolicies) {
  ObjectiveBatch data = batch_of(400);
  std::vector<float>& generation =
      data.batch.inputs[static_cast<int>(TokenInput::generation_logprobs)];
  for (std::int64_t row = 0; row + 1 < data.rows(); ++row) generation[row + 1] = data.logprobs[row];
  for (const char* type : {"\"k1\"", "\"k2\"", "\"k3\""}) {
    const auto by_score = make_clipped_pg(kl(type));
    const auto by_weight =
        make_clipped_pg(both(kl(type), {{"use_on_policy_kl_approximation", "true"}}));
    EXPECT_EQ(differences(run_objective(*by_score, data), objective_truth(*by_weight, data), 1e-12),
              "");
  }
}

TEST(ClippedPgTruth, ForcedOnPolicyIsPpoWithPreviousEqualToCurrent) {
  ObjectiveBatch data = batch_of(401);
  std::vector<float>& previous = data.batch.inputs[static_cast<int>(TokenInput::prev_logprobs)];
  for (std::int64_t row = 0; row + 1 < data.rows(); ++row) previous[row + 1] = data.logprobs[row];
  for (const Options& options : {Options{}, kDual, kSequenceMean, truncation("\"tis\"")}) {
    const auto forced = make_clipped_pg(both(options, kOnPolicy));
    const auto ppo = make_clipped_pg(options);
    EXPECT_EQ(differences(run_objective(*forced, data), objective_truth(*ppo, data), 1e-12), "")
        << shown(options);
  }
}

TEST(ClippedPgTruth, BranchesAddUpToTheTokens) {
  std::map<std::string, std::int64_t> seen;
  std::uint64_t seed = 500;
  for (const Options& options : all_options()) {
    const Drift drift = ++seed % 2 == 0 ? Drift::far : Drift::near;
    const ObjectiveTruth truth =
        objective_truth(*make_clipped_pg(options), batch_of(seed, drift_of(options, drift)));
    const auto of = [&](const std::string& name) {
      const auto found = truth.branches.find(name);
      return found == truth.branches.end() ? std::int64_t{0} : found->second;
    };
    const auto total = [&](std::initializer_list<const char*> names) {
      std::int64_t sum = 0;
      for (const char* name : names) sum += of(name);
      return sum;
    };
    const std::int64_t tokens = of("tokens");
    ASSERT_GT(tokens, 0);
    const ClippedPgOptions parsed = ClippedPgOptions::from(options);
    ASSERT_EQ(total({"ratio_below_clip", "ratio_inside_clip", "ratio_above_clip"}),
              parsed.clips() ? tokens : 0);
    ASSERT_LE(of("ratio_below_clip_clipped_active"), of("ratio_below_clip"));
    ASSERT_LE(of("ratio_above_clip_clipped_active"), of("ratio_above_clip"));
    ASSERT_EQ(total({"kl_live", "kl_input_clamped", "kl_output_clamped", "kl_weight_not_finite"}),
              parsed.kl_penalty() == 0 ? 0 : tokens);
    ASSERT_EQ(total({"geo_mean_zero", "geo_mean_open", "geo_mean_clipped_above",
                     "geo_mean_clipped_below"}),
              parsed.is_geo_mean() ? tokens : 0);
    ASSERT_EQ(total({"dppo_kept", "dppo_dropped_above", "dppo_dropped_below"}),
              parsed.is_dppo() || parsed.is_binary_dppo() ? tokens : 0);
    ASSERT_EQ(total({"proximal_without_version", "proximal_not_before", "proximal_between",
                     "proximal_is_generation"}),
              parsed.approximates_proximal() ? tokens : 0);
    const auto selected = [&](std::initializer_list<const char*> names, Selection by) {
      ASSERT_EQ(total(names), parsed.selection() == by ? tokens : 0) << shown(options);
    };
    selected({"clip_cov_below", "clip_cov_above", "clip_cov_clipped", "clip_cov_dropped",
              "clip_cov_spared"},
             Selection::clip_cov);
    selected({"kl_cov_penalised", "kl_cov_free"}, Selection::kl_cov);
    selected({"top_entropy_kept", "top_entropy_dropped"}, Selection::top_entropy);
    selected({"second_moment_kept", "second_moment_dropped"}, Selection::second_moment);
    const bool by_sequence = parsed.weighs_sequences();
    ASSERT_EQ(total({"rejection_kept", "rejection_dropped"}),
              parsed.rejection_level == RejectionLevel::token ? tokens : 0);
    ASSERT_EQ(
        total({"is_weight_inside", "is_weight_below", "is_weight_above", "is_weight_not_finite"}),
        by_sequence ? 0 : tokens);
    ASSERT_EQ(total({"sequence_is_weight_inside", "sequence_is_weight_below",
                     "sequence_is_weight_above", "sequence_is_weight_not_finite"}),
              by_sequence ? 6 : 0);
    ASSERT_EQ(total({"sequence_masked", "sequence_kept"}), parsed.masks_sequences() ? 6 : 0);
    for (const auto& [name, count] : truth.branches) seen[name] += count;
  }
  // The batches reach every branch that the options have.
  EXPECT_GE(seen.size(), 62u);
  for (const auto& [name, count] : seen) EXPECT_GT(count, 0) << name;
}

// The intervals are narrow enough that agreement means something.
TEST(ClippedPgTruth, IntervalsAreNarrow) {
  for (const Options& options : {Options{}, kDual, kCispo, kSequenceMean, truncation("\"tis\"")}) {
    const ObjectiveTruth truth = objective_truth(*make_clipped_pg(options), batch_of(600), 8);
    EXPECT_LT(truth.loss.radius(), 5e-6) << shown(options);
    for (const Enclosure& gradient : truth.grad_logprob) EXPECT_LT(gradient.radius(), 1e-6);
    for (const auto& [name, metric] : truth.metrics) {
      EXPECT_LT(metric.amount.radius(), 1e-5 * (1 + std::abs(metric.amount.value))) << name;
    }
  }
}

}  // namespace
}  // namespace lossgrid
