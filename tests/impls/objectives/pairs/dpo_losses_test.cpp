// SPDX-License-Identifier: Apache-2.0
// The losses of a pair and the scores of a sequence that `dpo` offers: each by its formula, its
// steps against its truth, the truth against finite differences, far out and at its switches.
#include <cmath>
#include <functional>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dpo_batches.h"
#include "harness/core/error.h"
#include "impls/objectives/pairs/dpo.h"

namespace lossgrid {
namespace {

using ::testing::Each;

/// Every loss type with options that it takes, every f-divergence with a loss that takes it, and
/// averages by token.
std::vector<ObjectiveOptions> dpo_losses() {
  std::vector<ObjectiveOptions> all;
  const auto add = [&](const std::string& type, ObjectiveOptions more) {
    more["loss_type"] = "\"" + type + "\"";
    more.emplace("reference_policy_kl_penalty", "0.5");
    all.push_back(more);
  };
  for (const char* type :
       {"sigmoid", "robust", "hinge", "ipo", "nca_pair", "bco_pair", "sppo_hard", "apo_zero",
        "apo_down", "discopop", "sigmoid_norm", "aot", "aot_unpaired"}) {
    add(type, {});
  }
  for (const char* type :
       {"sigmoid", "robust", "exo_pair", "sigmoid_norm", "aot", "aot_unpaired"}) {
    add(type, {{"label_smoothing", "0.2"}});
  }
  for (const char* type :
       {"hinge", "nca_pair", "sppo_hard", "apo_down", "discopop", "aot", "aot_unpaired"}) {
    add(type, {{"preference_average_log_probs", "true"},
               {"sft_loss_weight", "0.3"},
               {"preference_loss_weight", "1.5"}});
  }
  add("ipo", {{"ipo_average_log_probs", "false"}});
  add("discopop", {{"discopop_tau", "0.5"}});
  add("sigmoid", {{"ld_alpha", "0.25"}, {"sft_loss_weight", "0.3"}});
  add("ipo", {{"ld_alpha", "0"}});
  for (const char* divergence : {"forward_kl", "js_divergence", "alpha_divergence"}) {
    for (const char* type : {"sigmoid", "hinge", "ipo", "discopop"}) {
      add(type, {{"f_divergence_type", std::string("\"") + divergence + "\""}});
    }
  }
  for (const char* coefficient : {"0", "1", "1.5"}) {
    add("sigmoid_norm",
        {{"f_divergence_type", "\"alpha_divergence\""}, {"f_alpha_divergence_coef", coefficient}});
  }
  return all;
}

std::string text_of(const ObjectiveOptions& options) {
  std::string text;
  for (const auto& [option, value] : options) text += option + "=" + value + " ";
  return text;
}

DpoObjective<> dpo_of(const ObjectiveOptions& options) {
  return DpoObjective<>(read_dpo_options(options));
}

double logistic_of(double x) {
  return 1 / (1 + std::exp(-x));
}

/// Returns the loss of small_pairs() whose pairs have the losses l(0.75, -0.5) and l(-1, 0.5).
double loss_of(const std::function<double(double, double)>& l) {
  return (l(0.75, -0.5) + l(-1, 0.5)) / 4;
}

double loss_of_small_pairs(const std::string& type, ObjectiveOptions options = {}) {
  options["loss_type"] = "\"" + type + "\"";
  options["reference_policy_kl_penalty"] = "0.5";
  return run_objective(dpo_of(options), small_pairs()).loss;
}

TEST(DpoLosses, MatchTheFormulasOfDifferences) {
  constexpr double kE = 0.2;
  const ObjectiveOptions smoothed{{"label_smoothing", "0.2"}};
  const auto of_u = [](const std::function<double(double)>& l) {
    return loss_of([&](double a, double b) { return l(0.5 * (a - b)); });
  };
  const auto s = logistic_of;
  EXPECT_DOUBLE_EQ(loss_of_small_pairs("sigmoid", smoothed), of_u([&](double u) {
                     return -(1 - kE) * std::log(s(u)) - kE * std::log(s(-u));
                   }));
  EXPECT_DOUBLE_EQ(loss_of_small_pairs("robust", smoothed), of_u([&](double u) {
                     return (-(1 - kE) * std::log(s(u)) + kE * std::log(s(-u))) / (1 - 2 * kE);
                   }));
  EXPECT_DOUBLE_EQ(loss_of_small_pairs("hinge"),
                   of_u([](double u) { return std::max(0.0, 1 - u); }));
  EXPECT_DOUBLE_EQ(loss_of_small_pairs("exo_pair", smoothed), of_u([&](double u) {
                     return s(u) * (std::log(s(u)) - std::log(1 - kE)) +
                            s(-u) * (std::log(s(-u)) - std::log(kE));
                   }));
  EXPECT_DOUBLE_EQ(loss_of_small_pairs("discopop"), of_u([&](double u) {
                     const double m = s(u / 0.05);
                     return (1 - m) * -std::log(s(u)) + m * std::exp(-u);
                   }));
}

TEST(DpoLosses, MatchTheFormulasOfTwoScores) {
  const auto s = logistic_of;
  // 1 / (2 beta) = 1, and the first pair's chosen sequence has two tokens.
  EXPECT_DOUBLE_EQ(loss_of_small_pairs("ipo"),
                   (std::pow(0.375 + 0.5 - 1, 2) + std::pow(-1.5 - 1, 2)) / 4);
  EXPECT_DOUBLE_EQ(loss_of_small_pairs("ipo", {{"ipo_average_log_probs", "false"}}),
                   loss_of([](double a, double b) { return std::pow(a - b - 1, 2); }));
  EXPECT_DOUBLE_EQ(loss_of_small_pairs("sigmoid_norm"),
                   (-std::log(s(0.5 * 0.875)) - std::log(s(0.5 * -1.5))) / 4);
  EXPECT_DOUBLE_EQ(loss_of_small_pairs("nca_pair"), loss_of([&](double a, double b) {
                     return -std::log(s(a / 2)) - 0.5 * std::log(s(-a / 2)) -
                            0.5 * std::log(s(-b / 2));
                   }));
  EXPECT_DOUBLE_EQ(loss_of_small_pairs("bco_pair"), loss_of([&](double a, double b) {
                     return -std::log(s(a / 2)) - std::log(s(-b / 2));
                   }));
  EXPECT_DOUBLE_EQ(loss_of_small_pairs("sppo_hard"), loss_of([](double a, double b) {
                     return std::pow(a - 1, 2) + std::pow(b + 1, 2);
                   }));
  EXPECT_DOUBLE_EQ(loss_of_small_pairs("apo_zero"),
                   loss_of([&](double a, double b) { return 1 - s(a / 2) + s(b / 2); }));
  EXPECT_DOUBLE_EQ(loss_of_small_pairs("apo_down"),
                   loss_of([&](double a, double b) { return s(a / 2) + 1 - s((a - b) / 2); }));
}

TEST(DpoLosses, ByRankWorkedOutByHand) {
  // Differences of the policy -2 and -2.5, of the reference -3.25 and -1: they cross.
  const auto l = [](double u) { return -std::log(logistic_of(0.5 * u)); };
  EXPECT_DOUBLE_EQ(loss_of_small_pairs("aot"), (l(-2.5 - -3.25) + l(-2 - -1)) / 4);
  // Scores of chosen 0.75 and -1, of rejected -0.5 and 0.5.
  EXPECT_DOUBLE_EQ(loss_of_small_pairs("aot_unpaired"), (l(-1 - -0.5) + l(0.75 - 0.5)) / 4);
}

TEST(DpoLosses, MatchTheFormulasOfFDivergences) {
  const auto with = [](const std::string& divergence) {
    return loss_of_small_pairs("sigmoid", {{"f_divergence_type", "\"" + divergence + "\""}});
  };
  const auto of_score = [](const std::function<double(double)>& h) {
    return loss_of([&](double a, double b) { return -std::log(logistic_of(0.5 * (h(a) - h(b)))); });
  };
  EXPECT_DOUBLE_EQ(with("forward_kl"), of_score([](double x) { return 1 - std::exp(-x); }));
  EXPECT_DOUBLE_EQ(with("js_divergence"),
                   of_score([](double x) { return std::log(2 * logistic_of(x)); }));
  EXPECT_DOUBLE_EQ(with("alpha_divergence"),
                   of_score([](double x) { return (std::exp(-0.5 * x) - 1) / -0.5; }));
}

TEST(DpoLosses, StepsMatchTheTruth) {
  std::map<std::string, std::int64_t> branches;
  for (const ObjectiveOptions& options : dpo_losses()) {
    SCOPED_TRACE(text_of(options));
    const DpoObjective<> objective = dpo_of(options);
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      const ObjectiveBatch data = make_objective_batch(random_pairs(seed));
      expect_steps_match_truth(objective, data);
      for (const auto& [name, count] : objective_truth(objective, data).branches) {
        branches[name] += count;
      }
    }
  }
  for (const char* branch :
       {"pairs_hinge_active", "pairs_hinge_flat", "pairs_ranked_apart", "sequence_with_tail"}) {
    EXPECT_GT(branches[branch], 0) << branch;
  }
}

TEST(DpoLosses, TheGradientOfTheTruthIsThatOfFiniteDifferences) {
  const ObjectiveBatch data = make_objective_batch(random_pairs(6));
  for (const ObjectiveOptions& options : dpo_losses()) {
    SCOPED_TRACE(text_of(options));
    expect_gradient_of_differences(dpo_of(options), data);
  }
}

/// Losses weighted by the policy's probability; their gradient is none of finite differences.
std::vector<ObjectiveOptions> weighted_losses() {
  return {{{"use_weighting", "true"}, {"reference_policy_kl_penalty", "0.5"}},
          {{"use_weighting", "true"}, {"loss_type", "\"ipo\""}, {"sft_loss_weight", "0.3"}},
          {{"use_weighting", "true"},
           {"loss_type", "\"apo_zero\""},
           {"ld_alpha", "0.25"},
           {"preference_loss_weight", "1.5"}}};
}

TEST(DpoLosses, WeightedOnesWorkedOutByHand) {
  // Rows 0, 2 and 5, 8, 10: the weights of the first pair are exp of the mean of -1 - ln 0.5 and
  // -2 - ln 0.25, and of -1 - ln 0.125; of the second one exp(-3 + ln 2) and exp(-0.5).
  ObjectiveBatch data = small_pairs();
  const auto set = [&](std::size_t row, float sum) { data.terms[RowTerm::sum_p2][row] = sum; };
  set(0, 0.5f);
  set(2, 0.25f);
  set(5, 0.125f);
  set(8, 0.5f);
  set(10, 1.0f);
  const double first = std::exp(-1.5 + 1.5 * std::log(2.0)) * std::exp(-1 + std::log(8.0));
  const double second = std::exp(-3 + std::log(2.0)) * std::exp(-0.5);
  const auto loss = [](double u) { return std::log1p(std::exp(-u)); };
  const DpoObjective<> objective = dpo_of(weighted_losses()[0]);
  const ObjectiveRun run = run_objective(objective, data);
  EXPECT_NEAR(run.loss, (first * loss(0.5 * 1.25) + second * loss(0.5 * -1.5)) / 4, 1e-15);
  EXPECT_FLOAT_EQ(run.gradient[0], static_cast<float>(-first * 0.5 * logistic_of(-0.5 * 1.25) / 4));
  expect_steps_match_truth(objective, data);
}

TEST(DpoLosses, WeightedOnesMatchTheTruth) {
  const ObjectiveBatch data = make_objective_batch(random_pairs(6));
  for (const ObjectiveOptions& options : weighted_losses()) {
    SCOPED_TRACE(text_of(options));
    const DpoObjective<> objective = dpo_of(options);
    expect_steps_match_truth(objective, data);
    EXPECT_EQ(differences(run_objective(objective, data, dealt(data, 8, 3)),
                          objective_truth(objective, data), 1e-12),
              "");
  }
}

TEST(DpoLosses, NoSplitOverRanksChangesThem) {
  const ObjectiveBatch data = make_objective_batch(random_pairs(6));
  for (const ObjectiveOptions& options : dpo_losses()) {
    SCOPED_TRACE(text_of(options));
    const DpoObjective<> objective = dpo_of(options);
    const ObjectiveTruth truth = objective_truth(objective, data);
    for (const int ranks : {2, 8}) {
      EXPECT_EQ(differences(run_objective(objective, data, dealt(data, ranks, 3)), truth, 1e-12),
                "");
    }
  }
}

TEST(DpoLosses, WithoutSequencesOrValidOnesAreZero) {
  ObjectiveBatchShape none;
  none.lengths = {};
  ObjectiveBatchShape masked = random_pairs(1);
  masked.sample_mask.assign(8, 0);
  for (const ObjectiveOptions& options : dpo_losses()) {
    SCOPED_TRACE(text_of(options));
    for (const ObjectiveBatchShape& shape : {none, masked}) {
      const ObjectiveBatch data = make_objective_batch(shape);
      const ObjectiveRun run = run_objective(dpo_of(options), data);
      EXPECT_EQ(run.loss, 0);
      EXPECT_THAT(run.gradient, Each(0.0f));
      expect_steps_match_truth(dpo_of(options), data);
    }
  }
}

/// Returns small_pairs() with a first pair whose rewards are `first` further apart.
ObjectiveBatch pairs_apart(double apart) {
  ObjectiveBatch data = small_pairs();
  data.batch.inputs[kReference][1] = static_cast<float>(-1.5 - apart);
  return data;
}

TEST(DpoLosses, AreFiniteFarOut) {
  for (const ObjectiveOptions& options : dpo_losses()) {
    if (options.contains("f_divergence_type")) continue;  // they have exponentials of rewards
    SCOPED_TRACE(text_of(options));
    const DpoObjective<> objective = dpo_of(options);
    for (const double apart : {-1.25, -1.25 + 1e-7, 60.0, -60.0, 1400.0, -1400.0}) {
      const ObjectiveBatch data = pairs_apart(apart);
      EXPECT_TRUE(std::isfinite(run_objective(objective, data).loss)) << apart;
      expect_steps_match_truth(objective, data);
    }
  }
}

TEST(DpoLosses, AForwardDivergenceThatOverflowsHasNoNan) {
  const DpoObjective<> objective = dpo_of({{"f_divergence_type", "\"forward_kl\""}});
  const ObjectiveRun run = run_objective(objective, pairs_apart(1400));
  EXPECT_TRUE(std::isfinite(run.loss));
  for (const float gradient : run.gradient) EXPECT_TRUE(std::isfinite(gradient));
}

TEST(DpoLosses, AnAlphaDivergenceIsClampedAsInFloat32) {
  const DpoObjective<> objective = dpo_of(
      {{"f_divergence_type", "\"alpha_divergence\""}, {"reference_policy_kl_penalty", "0.5"}});
  for (const double apart : {-100.0, -1400.0}) {
    const ObjectiveBatch data = pairs_apart(apart);
    expect_steps_match_truth(objective, data);
    const bool is_clamped = apart < -160;
    EXPECT_EQ(objective_truth(objective, data).branches["sequence_alpha_clamped"],
              is_clamped ? 1 : 0);
    EXPECT_EQ(run_objective(objective, data).gradient[0] == 0, is_clamped);
  }
}

TEST(DpoLosses, TheTailOfALongerSequenceCountsLessWorkedOutByHand) {
  // The first pair's chosen sequence has a second token with a log-ratio of 0.25.
  const auto l = [](double u) { return -std::log(logistic_of(0.5 * u)); };
  EXPECT_DOUBLE_EQ(loss_of_small_pairs("sigmoid", {{"ld_alpha", "0.5"}}),
                   (l(0.5 + 0.125 + 0.5) + l(-1 - 0.5)) / 4);
  EXPECT_DOUBLE_EQ(loss_of_small_pairs("sigmoid", {{"ld_alpha", "1"}}),
                   loss_of_small_pairs("sigmoid"));
  const ObjectiveRun run = run_objective(
      dpo_of({{"ld_alpha", "0.5"}, {"reference_policy_kl_penalty", "0.5"}}), small_pairs());
  EXPECT_FLOAT_EQ(run.gradient[2], 0.5f * run.gradient[0]);
}

TEST(DpoLosses, AtTheKinkOfTheHingeARightGradientIsOneOfTwo) {
  // u = 0.5 (0.75 + apart + 0.5) = 1.
  const ObjectiveBatch data = pairs_apart(0.75);
  const DpoObjective<> objective =
      dpo_of({{"loss_type", "\"hinge\""}, {"reference_policy_kl_penalty", "0.5"}});
  expect_steps_match_truth(objective, data);
  EXPECT_EQ(run_objective(objective, data).gradient[5], 0);
  const ObjectiveTruth truth = objective_truth(objective, data, 1);
  ASSERT_TRUE(truth.grad_sides.contains(5));
  const std::vector<Enclosure>& sides = truth.grad_sides.at(5);
  ASSERT_EQ(sides.size(), 2u);
  EXPECT_NEAR(std::max(sides[0].value, sides[1].value), 0.5 / 4, 1e-6);
  EXPECT_EQ(std::min(sides[0].value, sides[1].value), 0);
  EXPECT_FALSE(truth.grad_sides.contains(8));  // of the other pair
}

TEST(DpoLosses, TiedRanksHaveTheGradientsOfEach) {
  // Both pairs have the policy's difference -2.5.
  ObjectiveBatch data = small_pairs();
  data.logprobs[0] = -1.5f;
  const DpoObjective<> objective =
      dpo_of({{"loss_type", "\"aot\""}, {"reference_policy_kl_penalty", "0.5"}});
  expect_steps_match_truth(objective, data);
  const ObjectiveTruth truth = objective_truth(objective, data, 1);
  ASSERT_TRUE(truth.grad_sides.contains(8));
  const auto slope = [](double u) { return -0.5 * logistic_of(-0.5 * u) / 4; };
  const std::vector<Enclosure>& sides = truth.grad_sides.at(8);
  ASSERT_EQ(sides.size(), 2u);
  EXPECT_TRUE(sides[0].contains(slope(-2.5 - -3.25)));
  EXPECT_TRUE(sides[1].contains(slope(-2.5 - -1)));
  EXPECT_FALSE(sides[0].contains(slope(-2.5 - -1)));
}

TEST(DpoLosses, ByRankKeepTheWholeBatchInOnePack) {
  const ObjectiveNeeds by_rank = dpo_of({{"loss_type", "\"aot\""}}).needs();
  EXPECT_EQ(by_rank.unit_of(8), 8);
  EXPECT_EQ(by_rank.unit_of(0), 2);
  EXPECT_EQ(dpo_of({}).needs().unit_of(8), 2);
}

std::string refusal(const ObjectiveOptions& options) {
  try {
    read_dpo_options(options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return error.what();
  }
  return "none";
}

TEST(DpoLosses, RefuseOptionsThatDoNotFit) {
  const auto refused = [](const std::string& type, const std::string& option,
                          const std::string& value) {
    return refusal({{"loss_type", "\"" + type + "\""}, {option, value}});
  };
  EXPECT_EQ(refused("sigmoid", "label_smoothing", "0.5"),
            "dpo: label_smoothing must be in [0, 0.5)");
  EXPECT_EQ(refused("hinge", "label_smoothing", "0.1"),
            "dpo: loss_type = \"hinge\" excludes a label_smoothing above 0");
  EXPECT_EQ(refused("exo_pair", "label_smoothing", "0"),
            "dpo: loss_type = \"exo_pair\" needs a label_smoothing above 0");
  for (const char* type : {"ipo", "sppo_hard"}) {
    EXPECT_EQ(refused(type, "reference_policy_kl_penalty", "0"),
              std::string("dpo: loss_type = \"") + type +
                  "\" needs a reference_policy_kl_penalty above 0");
  }
  for (const char* type : {"ipo", "sigmoid_norm"}) {
    EXPECT_EQ(refused(type, "preference_average_log_probs", "true"),
              std::string("dpo: loss_type = \"") + type +
                  "\" excludes preference_average_log_probs = true");
  }
  EXPECT_EQ(refused("hinge", "ipo_average_log_probs", "false"),
            "dpo: ipo_average_log_probs = false needs loss_type = \"ipo\"");
  EXPECT_EQ(refused("aot", "ld_alpha", "0.5"), "dpo: loss_type = \"aot\" excludes an ld_alpha");
  EXPECT_EQ(refused("aot_unpaired", "use_weighting", "true"),
            "dpo: loss_type = \"aot_unpaired\" excludes use_weighting = true");
  EXPECT_EQ(refused("sigmoid", "ld_alpha", "2"), "dpo: ld_alpha must be in [0, 1], or null");
  EXPECT_EQ(refused("aot", "f_divergence_type", "\"forward_kl\""),
            "dpo: loss_type = \"aot\" excludes f_divergence_type = \"forward_kl\"");
  EXPECT_EQ(refusal({{"f_divergence_type", "\"js_divergence\""},
                     {"preference_average_log_probs", "true"}}),
            "dpo: f_divergence_type = \"js_divergence\" excludes preference_average_log_probs = "
            "true");
  EXPECT_EQ(refused("discopop", "discopop_tau", "0"), "dpo: discopop_tau must be above 0");
  EXPECT_EQ(refused("hinge", "discopop_tau", "0.5"),
            "dpo: discopop_tau = 0.5 needs loss_type = \"discopop\"");
  EXPECT_EQ(refused("sigmoid", "f_alpha_divergence_coef", "0.7"),
            "dpo: f_alpha_divergence_coef = 0.7 needs f_divergence_type = \"alpha_divergence\"");
  EXPECT_NE(refused("slic", "sft_loss_weight", "1"), "none");
  for (const ObjectiveOptions& options : dpo_losses()) {
    EXPECT_EQ(refusal(options), "none") << text_of(options);
  }
}

}  // namespace
}  // namespace lossgrid
