// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "objective_batch.h"

namespace lossgrid {
namespace {

using testing::Each;

std::unique_ptr<Objective> distill(const ObjectiveOptions& options = {}) {
  return find_objective("distill").make(options);
}

std::vector<ObjectiveOptions> all_kinds() {
  return {{{"kl_type", "\"forward\""}},
          {{"kl_type", "\"forward\""}, {"zero_outside_topk", "true"}},
          {{"kl_type", "\"reverse\""}},
          {{"kl_type", "\"reverse\""}, {"zero_outside_topk", "true"}},
          {{"kl_type", "\"mixed\""}, {"mixed_kl_weight", "0.2"}},
          {{"kl_type", "\"mixed\""}, {"zero_outside_topk", "true"}},
          {{"kl_type", "\"jsd\""}, {"jsd_beta", "0.1"}},
          {{"kl_type", "\"reverse\""}, {"distillation_add_tail", "true"}},
          {{"loss_mode", "\"forward_kl_topk\""}}};
}

/// Three sequences of which the last is masked as a whole; the pack is a part of a batch of 8 valid
/// tokens. Valid rows 0, 2 and 4 have the divergences 0.5, 2 and 1.5.
ObjectiveBatch distill_batch() {
  ObjectiveBatchShape shape;
  shape.lengths = {4, 2, 3};
  shape.sample_mask = {1, 1, 0};
  ObjectiveBatch data = make_objective_batch(shape);
  data.batch.token_mask = {1, 1, 0, 1, 0, 1, 1, 1, 1};
  data.batch.denominators = {8, 4, 0};
  data.terms[RowTerm::divergence].assign(9, kPoison);
  data.terms[RowTerm::divergence][0] = 0.5;
  data.terms[RowTerm::divergence][2] = 2;
  data.terms[RowTerm::divergence][4] = 1.5;
  return data;
}

std::vector<ObjectiveBatchShape> random_shapes() {
  std::vector<ObjectiveBatchShape> shapes;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    ObjectiveBatchShape shape;
    shape.seed = seed;
    shape.part_of_more = seed % 2 == 0;
    if (seed % 3 == 0) shape.sample_mask = {1, 1, 0, 1, 1, 0};
    if (seed % 5 == 0) shape.masked_share = 0;
    shapes.push_back(shape);
  }
  return shapes;
}

TEST(Distill, WorkedOutByHand) {
  for (const ObjectiveOptions& options : all_kinds()) {
    const ObjectiveRun run = run_objective(*distill(options), distill_batch());
    EXPECT_DOUBLE_EQ(run.loss, 4.0 / 8);
    EXPECT_EQ(run.metrics.size(), 3u);
    EXPECT_EQ(run.metrics.at("loss"), (Metric{Reduction::sum, run.loss, 1}));
    EXPECT_EQ(run.metrics.at("num_unmasked_tokens"), (Metric{Reduction::count, 3, 1}));
    EXPECT_EQ(run.metrics.at("num_valid_samples"), (Metric{Reduction::count, 2, 1}));
    EXPECT_EQ(run.term_gradients[RowTerm::divergence],
              (std::vector<float>{0.125f, 0, 0.125f, 0, 0.125f, 0, 0, 0, 0}));
    EXPECT_THAT(run.gradient, Each(0.0f));
    for (const RowTerm other : {RowTerm::entropy, RowTerm::logsumexp, RowTerm::mean_logprob}) {
      EXPECT_TRUE(run.term_gradients[other].empty());
    }
  }
}

TEST(Distill, NeedsTheDivergenceOfItsOptions) {
  const auto divergence = [](const ObjectiveOptions& options) {
    const RowTerms terms = distill(options)->needs().terms;
    EXPECT_EQ(terms.count(), 1);
    return terms.divergence;
  };
  using Kind = Divergence::Kind;
  using Topk = Divergence::Topk;
  EXPECT_EQ(divergence({}), (Divergence{Kind::forward, 0.5, Topk::renormalized}));
  EXPECT_EQ(divergence({{"zero_outside_topk", "true"}}),
            (Divergence{Kind::forward, 0.5, Topk::zero_outside}));
  EXPECT_EQ(divergence({{"kl_type", "\"reverse\""}}),
            (Divergence{Kind::reverse, 0.5, Topk::renormalized}));
  EXPECT_EQ(divergence({{"kl_type", "\"reverse\""}, {"zero_outside_topk", "true"}}),
            (Divergence{Kind::reverse, 0.5, Topk::zero_outside}));
  EXPECT_EQ(divergence({{"kl_type", "\"jsd\""}, {"jsd_beta", "0.1"}, {"mixed_kl_weight", "0.2"}}),
            (Divergence{Kind::jsd, 0.1, Topk::renormalized}));
  EXPECT_EQ(divergence({{"kl_type", "\"mixed\""}, {"jsd_beta", "0.1"}, {"mixed_kl_weight", "0.2"}}),
            (Divergence{Kind::mixed, 0.2, Topk::renormalized}));
}

TEST(Distill, ReadsTheClampsOfLogarithms) {
  const auto divergence = [](ObjectiveOptions options) {
    options["loss_mode"] = "\"forward_kl_topk\"";
    return distill(options)->needs().terms.divergence;
  };
  using Topk = Divergence::Topk;
  EXPECT_EQ(divergence({}), (Divergence{Divergence::Kind::forward, 0.5, Topk::clamped, -10}));
  EXPECT_EQ(divergence({{"log_prob_min_clamp", "-3"}}).log_prob_min, -3);
  EXPECT_EQ(divergence({{"log_prob_min_clamp", "null"}}).log_prob_min,
            -std::numeric_limits<double>::infinity());
}

/// A side without a weight would be 0 times what may be infinite.
TEST(Distill, AMixedOneOfOneSideIsThatSide) {
  const auto kind = [](const char* weight) {
    return distill({{"kl_type", "\"mixed\""}, {"mixed_kl_weight", weight}})
        ->needs()
        .terms.divergence.kind;
  };
  EXPECT_EQ(kind("1"), Divergence::Kind::forward);
  EXPECT_EQ(kind("0"), Divergence::Kind::reverse);
  EXPECT_EQ(kind("0.999"), Divergence::Kind::mixed);
}

TEST(Distill, StepsMatchTheTruth) {
  for (const ObjectiveBatchShape& shape : random_shapes()) {
    const ObjectiveBatch data = make_objective_batch(shape);
    for (const ObjectiveOptions& options : all_kinds()) {
      SCOPED_TRACE(fmt::format("{}, seed {}", options.begin()->second, shape.seed));
      expect_steps_match_truth(*distill(options), data);
      expect_steps_match_truth(*with_statistics(distill(options)), data);
    }
  }
}

TEST(Distill, AnotherDivergenceDoesNotMatchTheTruth) {
  for (const ObjectiveBatchShape& shape : random_shapes()) {
    const ObjectiveBatch data = make_objective_batch(shape);
    ObjectiveBatch other = data;
    for (float& divergence : other.terms[RowTerm::divergence]) divergence *= 1.0001f;
    const ObjectiveTruth truth = objective_truth(*distill(), data);
    EXPECT_NE(differences(run_objective(*distill(), other), truth, 1e-6), "");
  }
}

TEST(Distill, TheGradientIsThatOfFiniteDifferences) {
  expect_gradient_of_differences(*distill(), make_objective_batch({}));
}

/// A gradient that is known before the forward pass is what linear() promises.
TEST(Distill, IsLinearWithoutBoundsOfTheLoss) {
  for (const ObjectiveOptions& options : all_kinds()) {
    EXPECT_EQ(distill(options)->linear(), !options.contains("loss_mode"));
  }
}

TEST(Distill, BoundsTheLossByItsLargestClamp) {
  ObjectiveBatch data = distill_batch();
  data.terms[RowTerm::divergence][0] = -0.5;  // no loss, no gradient
  data.terms[RowTerm::divergence][2] = 2;
  data.terms[RowTerm::divergence][4] = 20;
  const auto run = [&](const char* most) {
    return run_objective(*distill({{"loss_mode", "\"forward_kl_topk\""}, {"loss_max_clamp", most}}),
                         data);
  };
  EXPECT_DOUBLE_EQ(run("10").loss, 12.0 / 8);
  EXPECT_EQ(run("10").term_gradients[RowTerm::divergence],
            (std::vector<float>{0, 0, 0.125f, 0, 0, 0, 0, 0, 0}));
  EXPECT_DOUBLE_EQ(run("null").loss, 22.0 / 8);
  EXPECT_EQ(run("null").term_gradients[RowTerm::divergence],
            (std::vector<float>{0, 0, 0.125f, 0, 0.125f, 0, 0, 0, 0}));
  // A bound that is met passes the gradient.
  EXPECT_EQ(run("2").term_gradients[RowTerm::divergence],
            (std::vector<float>{0, 0, 0.125f, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(run("1.99").term_gradients[RowTerm::divergence], std::vector<float>(9, 0.0f));
  for (const char* most : {"10", "2", "1.99", "null"}) {
    expect_steps_match_truth(
        *distill({{"loss_mode", "\"forward_kl_topk\""}, {"loss_max_clamp", most}}), data);
  }
}

TEST(Distill, NoSplitOverRanksChangesIt) {
  const ObjectiveBatch data = make_objective_batch(random_shapes()[1]);
  for (const ObjectiveOptions& options : all_kinds()) {
    const auto objective = distill(options);
    const ObjectiveRun all = run_objective(*objective, data);
    for (const int ranks : {2, 3, 8}) {
      const ObjectiveRun split = run_objective(*objective, data, dealt(data, ranks, 4));
      EXPECT_NEAR(split.loss, all.loss, 1e-14 * all.loss);
      EXPECT_EQ(split.gradient, all.gradient);
      EXPECT_EQ(split.term_gradients, all.term_gradients);
      EXPECT_EQ(split.metrics.at("num_unmasked_tokens"), all.metrics.at("num_unmasked_tokens"));
      EXPECT_EQ(split.metrics.at("num_valid_samples"), all.metrics.at("num_valid_samples"));
    }
  }
}

TEST(Distill, IsZeroWithoutValidTokens) {
  ObjectiveBatchShape shape;
  shape.part_of_more = false;
  shape.sample_mask = {0, 0, 0, 0, 0, 0};
  ObjectiveBatchShape masked_tokens = shape;
  masked_tokens.sample_mask = {};
  masked_tokens.masked_share = 1;
  ObjectiveBatchShape empty = shape;
  empty.lengths = {0, 0};
  empty.sample_mask = {1, 1};
  for (const ObjectiveBatchShape& nothing : {shape, masked_tokens, empty}) {
    const ObjectiveBatch data = make_objective_batch(nothing);
    const ObjectiveRun run = run_objective(*distill(), data);
    EXPECT_EQ(run.loss, 0);
    EXPECT_EQ(run.metrics.at("loss").value(), 0);
    EXPECT_EQ(run.metrics.at("num_unmasked_tokens").value(), 0);
    EXPECT_THAT(run.term_gradients[RowTerm::divergence], Each(0.0f));
    expect_steps_match_truth(*distill(), data);
  }
}

TEST(Distill, WithoutDenominatorsIsZero) {
  ObjectiveBatch data = distill_batch();
  data.batch.denominators = {0, 0, 0};
  const ObjectiveRun run = run_objective(*distill(), data);
  EXPECT_EQ(run.loss, 0);
  EXPECT_THAT(run.term_gradients[RowTerm::divergence], Each(0.0f));
  expect_steps_match_truth(*distill(), data);
}

TEST(Distill, RefusesWhatIsNotAnOption) {
  const auto message = [](const ObjectiveOptions& options) -> std::string {
    try {
      distill(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_input);
      return error.what();
    }
    return "no error";
  };
  for (const char* beta : {"0", "1", "-0.5", "2"}) {
    EXPECT_EQ(message({{"kl_type", "\"jsd\""}, {"jsd_beta", beta}}),
              "distill: jsd_beta must be in (0, 1)");
  }
  const std::string sideways = message({{"kl_type", "\"sideways\""}});
  EXPECT_THAT(sideways,
              testing::AllOf(testing::HasSubstr("kl_type"), testing::HasSubstr("sideways"),
                             testing::Not(testing::HasSubstr("\n"))));
  for (const char* weight : {"-0.5", "1.5"}) {
    EXPECT_EQ(message({{"kl_type", "\"mixed\""}, {"mixed_kl_weight", weight}}),
              "distill: mixed_kl_weight must be in [0, 1]");
  }
  EXPECT_EQ(message({{"kl_type", "\"jsd\""}, {"zero_outside_topk", "true"}}),
            "distill: zero_outside_topk = true needs another kl_type than \"jsd\"");
  const auto clamped = [&](const char* option, const char* value) {
    return message({{"loss_mode", "\"forward_kl_topk\""}, {option, value}});
  };
  EXPECT_EQ(clamped("log_prob_min_clamp", "0"),
            "distill: log_prob_min_clamp must be below 0, or null");
  EXPECT_EQ(clamped("loss_max_clamp", "-1"), "distill: loss_max_clamp must be above 0, or null");
  for (const auto& [option, value] :
       {std::pair("kl_type", "\"reverse\""), std::pair("zero_outside_topk", "true")}) {
    EXPECT_EQ(clamped(option, value),
              "distill: loss_mode = \"forward_kl_topk\" allows no other kl_type than \"forward\", "
              "and no zero_outside_topk = true");
  }
  for (const ObjectiveOptions& other : {ObjectiveOptions{{"zero_outside_topk", "true"}},
                                        ObjectiveOptions{{"loss_mode", "\"forward_kl_topk\""}}}) {
    ObjectiveOptions options = other;
    options["distillation_add_tail"] = "true";
    EXPECT_EQ(message(options),
              "distill: distillation_add_tail = true allows no zero_outside_topk = true, and no "
              "loss_mode");
  }
  EXPECT_THAT(message({{"loss_max_clamp", "1"}}), testing::HasSubstr("loss_max_clamp"));
  EXPECT_THAT(message({{"jsd_bet", "0.5"}}), testing::HasSubstr("jsd_bet"));
}

}  // namespace
}  // namespace lossgrid
