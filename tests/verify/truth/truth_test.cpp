// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/truth/truth.h"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>

#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "harness/verify/checks/expected.h"
#include "harness/verify/truth/bounds.h"
#include "harness/verify/truth/usable_truth.h"
#include "linear_emulation.h"
#include "one_row.h"

namespace lossgrid {
namespace {

constexpr double kTruthInf = std::numeric_limits<double>::infinity();

Truth truth_of(const std::string& text, int threads = 1) {
  const Problem problem = make_problem(parse_case(text));
  return make_truth(problem, compute_rows(problem, threads), *make_objective({}, true), 12);
}

TEST(RowTruth, MatchesTheFormulaInLongDouble) {
  const std::vector<double> logits{0.5, -1.25, 3.0, 2.999, -40.0};
  long double sum = 0;
  for (const double x : logits) sum += std::exp(static_cast<long double>(x));
  for (std::int32_t y = 0; y < 5; ++y) {
    const RowTruth row = row_truth(logits, y);
    EXPECT_NEAR(row.logprob, static_cast<double>(logits[y] - std::log(sum)), 1e-14);
    EXPECT_EQ(row.max, 3.0);
    long double spread = 0;
    for (const double x : logits) spread += std::exp(x - std::log(sum)) * std::abs(x - 3.0L);
    EXPECT_NEAR(row.spread, static_cast<double>(spread), 1e-14);
    long double entropy = 0;
    for (const double x : logits) {
      entropy -= std::exp(x - std::log(sum)) * (x - std::log(sum));
    }
    EXPECT_NEAR(row.entropy(), static_cast<double>(entropy), 1e-14);
    EXPECT_EQ(row.smallest, -40.0);
  }
}

TEST(RowTruth, MaskedVocabularyHasNoProbability) {
  const RowTruth row = row_truth(std::vector<double>{-kTruthInf, 0.0, 0.0, -kTruthInf}, 1);
  EXPECT_DOUBLE_EQ(row.logprob, -std::log(2.0));
  EXPECT_EQ(row.spread, 0);
  EXPECT_EQ(row.smallest, 0);
  EXPECT_DOUBLE_EQ(row.entropy(), std::log(2.0));
  EXPECT_TRUE(std::isfinite(entropy_bound(row, 12)));
  std::vector<double> grad(4);
  truth_probabilities(row, std::vector<double>{-kTruthInf, 0.0, 0.0, -kTruthInf}, grad);
  truth_gradient(row, 1.0, grad, 0, grad);
  EXPECT_EQ(grad[0], 0);
  EXPECT_DOUBLE_EQ(grad[1], 0.5);
  EXPECT_TRUE(std::isfinite(logprob_bound(row, 12)));
  EXPECT_TRUE(
      std::isfinite(GradientBound(row, 1.0, DType::f32, 12).computation(-kTruthInf, 0, false)));
}

TEST(RowTruth, CertainLabelsKeepTheirGradient) {
  // 1 - p_y is about 4e-18: 1 - (rounded p_y) would be zero.
  const std::vector<double> logits{40.0, 0.0};
  std::vector<double> grad(2);
  truth_probabilities(row_truth(logits, 0), logits, grad);
  truth_gradient(row_truth(logits, 0), 1.0, grad, 0, grad);
  EXPECT_NEAR(grad[0] / std::exp(-40.0), 1.0, 1e-12);
}

TEST(RowTruth, ErrorsOfLogitsAreDerivatives) {
  // Logits moved by their errors in the worst direction reach the derived errors, to first order.
  const std::vector<double> logits{0.5, -1.25, 3.0, 2.9, -4.0};
  const std::vector<double> errors{1e-6, 3e-6, 2e-6, 1e-7, 5e-6};
  const RowTruth row = row_truth(logits, 1, errors);
  EXPECT_EQ(row.range_error, 5e-6);
  EXPECT_EQ(row.target_error, 3e-6);
  std::vector<double> p(5);
  truth_probabilities(row, logits, p);
  std::vector<double> toward_target = logits;
  std::vector<double> toward_entropy = logits;
  std::vector<double> all_up = logits;
  for (std::size_t v = 0; v < 5; ++v) {
    toward_target[v] += v == 1 ? errors[v] : -errors[v];
    all_up[v] += v == 1 ? 0 : errors[v];
    toward_entropy[v] -= std::copysign(errors[v], std::log(p[v]) + row.entropy());
  }
  EXPECT_NEAR(row_truth(toward_entropy, 1).entropy() - row.entropy(),
              row.term_error[RowTerm::entropy], 1e-4 * row.term_error[RowTerm::entropy]);
  EXPECT_NEAR(row.logprob - row_truth(all_up, 1).logprob, row.mean_error - p[1] * errors[1],
              1e-4 * row.mean_error);
  const double change = row_truth(toward_target, 1).logprob - row.logprob;
  EXPECT_LE(change, row.target_error + row.mean_error);
  EXPECT_GT(change, 0.9 * (row.target_error + row.mean_error));
  EXPECT_NEAR(logprob_bound(row, 12) - logprob_bound(row_truth(logits, 1), 12),
              row.target_error + row.mean_error, 1e-18);
  EXPECT_NEAR(entropy_bound(row, 12) - entropy_bound(row_truth(logits, 1), 12),
              row.term_error[RowTerm::entropy], 1e-18);
}

TEST(Truth, DoesNotDependOnThreads) {
  const std::string text = "lens=5+0+1+9 vocab=33 mask=all";
  const Truth one = truth_of(text, 1);
  const Truth four = truth_of(text, 4);
  ASSERT_EQ(one.rows.size(), four.rows.size());
  EXPECT_EQ(one.objective.loss.value, four.objective.loss.value);
  for (std::size_t t = 0; t < one.rows.size(); ++t) {
    EXPECT_EQ(one.rows[t].logprob, four.rows[t].logprob);
  }
}

TEST(Truth, LossIsTheMeanOverValidTokensOfTheGlobalBatch) {
  const Truth truth = truth_of("lens=3+2 mask=111+01 vocab=7");
  double sum = 0;
  int valid = 0;
  for (const RowTruth& row : truth.rows) {
    if (!row.valid) continue;
    sum += row.logprob;
    ++valid;
  }
  EXPECT_EQ(valid, 3);
  EXPECT_DOUBLE_EQ(truth.objective.loss.value, -sum / 3);
  const Truth global = truth_of("lens=3+2 mask=111+01 vocab=7 global_valid_toks=12");
  EXPECT_DOUBLE_EQ(global.objective.loss.value, -sum / 12);
}

/// Logits that implementations make themselves, with an error of 1e-6 + 2^-20 |logit|.
class MadeLogits final : public LogitsSource {
 public:
  void read(std::int64_t, std::int64_t begin, std::span<double> out) const override {
    for (std::size_t k = 0; k < out.size(); ++k) out[k] = -8.0 * static_cast<double>(begin + k);
  }
  void read(std::int64_t, std::int64_t, std::span<float>) const override {}
  bool given() const override { return false; }
  double relative_error() const override { return 0x1p-20; }
  void read_errors(std::int64_t, std::int64_t, std::span<double> out) const override {
    std::fill(out.begin(), out.end(), 1e-6);
  }
};

TEST(RowTruth, ErrorsOfMadeLogitsAreThoseOfTheirSource) {
  const std::vector<double> logits{0, -8, -16};
  std::vector<double> errors(3);
  read_logit_errors(MadeLogits(), 0, 0, logits, errors);
  for (std::size_t v = 0; v < 3; ++v) {
    EXPECT_DOUBLE_EQ(errors[v], 1e-6 + 8 * static_cast<double>(v) * 0x1p-20) << v;
  }
}

TEST(Truth, ARowThatIsTrainedOnNeedsALogprob) {
  const Problem problem = make_problem(parse_case("lens=3 mask=011 vocab=4"));
  std::vector<RowTruth> rows = compute_rows(problem, 1);
  EXPECT_NO_THROW(require_trainable(problem, rows));
  rows[2].logprob = std::numeric_limits<double>::quiet_NaN();  // predicts nothing
  EXPECT_NO_THROW(require_trainable(problem, rows));
  rows[1].logprob = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(require_trainable(problem, rows), Error);
}

/// Ones, and an infinity in one place.
class OneInfinity final : public LogitsSource {
 public:
  OneInfinity(std::int64_t token, std::int64_t id) : token_(token), id_(id) {}
  void read(std::int64_t token, std::int64_t begin, std::span<double> out) const override {
    read_as(token, begin, out);
  }
  void read(std::int64_t token, std::int64_t begin, std::span<float> out) const override {
    read_as(token, begin, out);
  }

 private:
  template <typename Out>
  void read_as(std::int64_t token, std::int64_t begin, std::span<Out> out) const {
    std::fill(out.begin(), out.end(), Out{1});
    if (token == token_) out[static_cast<std::size_t>(id_ - begin)] = Out(kTruthInf);
  }

  std::int64_t token_;
  std::int64_t id_;
};

TEST(Truth, ALogitWithoutAProbabilityIsNamed) {
  for (const std::size_t id : {0u, 1u, 3u}) {
    Problem problem = make_problem(parse_case("lens=3 vocab=4"));
    problem.logits = std::make_shared<OneInfinity>(1, static_cast<std::int64_t>(id));
    const std::vector<RowTruth> rows = compute_rows(problem, 1);
    EXPECT_THAT(
        [&] { require_trainable(problem, rows); },
        testing::ThrowsMessage<Error>(testing::HasSubstr(fmt::format("inf at vocab id {},", id))));
  }
}

TEST(Truth, RoundedLogitsWidenTheRowsOfEveryTarget) {
  const Problem problem = make_problem(parse_case("lens=12 vocab=2 hidden=3 dtype=bf16"));
  const std::vector<RowTruth> rows = compute_rows(problem, 1);
  const auto objective = make_objective({}, true);
  const Truth exact = make_truth(problem, rows, *objective, 12);
  const Truth rounded = make_truth(problem, rows, *objective, 12, {.logits = true});
  std::array<int, 2> seen{};
  for (std::size_t t = 0; t < rows.size(); ++t) {
    if (rows[t].target < 0) continue;
    ++seen[static_cast<std::size_t>(rows[t].target)];
    EXPECT_GT(rounded.rows[t].target_error, exact.rows[t].target_error) << rows[t].target;
  }
  EXPECT_TRUE(seen[0] > 0 && seen[1] > 0);
}

TEST(Truth, NothingValidIsLossZeroAndGradientZero) {
  const Truth truth = truth_of("lens=3+2 mask=000+00 vocab=7");
  EXPECT_EQ(truth.objective.loss.value, 0);
  for (const Enclosure& g : truth.objective.grad_logprob) EXPECT_TRUE(g.is_exact() && g.value == 0);
}

/// Compares the true gradient with central differences of the loss, over the whole chain logits ->
/// log-probabilities -> objective.
class GradientByDifferences : public ::testing::TestWithParam<const char*> {};

class Perturbed final : public LogitsSource {
 public:
  Perturbed(std::shared_ptr<const LogitsSource> inner, std::int64_t row, std::int64_t column,
            double by)
      : inner_(std::move(inner)), row_(row), column_(column), by_(by) {}
  void read(std::int64_t token, std::int64_t begin, std::span<double> out) const override {
    inner_->read(token, begin, out);
    const std::int64_t at = column_ - begin;
    if (token == row_ && at >= 0 && at < static_cast<std::int64_t>(out.size())) out[at] += by_;
  }
  void read(std::int64_t, std::int64_t, std::span<float>) const override { FAIL(); }

 private:
  std::shared_ptr<const LogitsSource> inner_;
  std::int64_t row_;
  std::int64_t column_;
  double by_;
};

TEST_P(GradientByDifferences, Agrees) {
  Problem problem = make_problem(parse_case(GetParam()));
  const auto objective = make_objective(problem.spec.objective, false);
  const std::vector<RowTruth> rows = compute_rows(problem, 1);
  std::vector<double> logprobs;
  for (const RowTruth& row : rows) logprobs.push_back(row.logprob);
  draw_objective_inputs(problem, objective->needs(), objective->input_draw().get(), logprobs);
  const Truth truth = make_truth(problem, rows, *objective, 12);
  const BundleResults results = expected_results(problem, truth);
  const auto loss_at = [&](std::int64_t t, std::int64_t v, double by) {
    Problem changed = problem;
    changed.logits = std::make_shared<Perturbed>(problem.logits, t, v, by);
    return make_truth(changed, compute_rows(changed, 1), *objective, 12).objective.loss.value;
  };
  constexpr double kStep = 1e-4;
  for (std::int64_t t = 0; t < problem.tokens(); ++t) {
    for (std::int64_t v = 0; v < problem.spec.vocab; ++v) {
      const double difference = (loss_at(t, v, kStep) - loss_at(t, v, -kStep)) / (2 * kStep);
      EXPECT_NEAR(results.grad_logits[t * problem.spec.vocab + v], difference, 1e-9)
          << "row " << t << " column " << v;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Regimes, GradientByDifferences,
                         ::testing::Values("lens=4+1+3 vocab=6 dtype=f64 mask=all",
                                           "lens=5+2 vocab=5 dtype=f64 values=peaked",
                                           "lens=5+2 vocab=9 dtype=f64 values=ties mask=all",
                                           "lens=3+4 vocab=5 dtype=f64 sample_mask=01"));

// Without terms whose gradient is not that of their value (score terms, detached ratios).
INSTANTIATE_TEST_SUITE_P(
    Objectives, GradientByDifferences,
    ::testing::Values("objective=nll objective.token_level_loss=false lens=4+1+3 vocab=6 dtype=f64",
                      "objective=clipped_pg objective.reference_policy_kl_penalty=0 "
                      "objective.ratio_clip_c=1.4 lens=9+7 mask=all vocab=6 dtype=f64",
                      "objective=clipped_pg objective.reference_policy_kl_penalty=0 "
                      "objective.token_level_loss=false "
                      "objective.sequence_level_importance_ratios=true "
                      "objective.use_importance_sampling_correction=true "
                      "lens=5+7+4 mask=all vocab=6 dtype=f64",
                      "objective=dpo objective.sft_loss_weight=0.1 lens=5+7+4+3 vocab=6 dtype=f64",
                      "objective=dpo objective.preference_average_log_probs=true "
                      "lens=5+7+4+3 vocab=6 dtype=f64"));

TEST(RowTruth, ATargetOfProbability0HasMinusInfinity) {
  const RowTruth row = row_truth(std::vector<double>{0.0, -kTruthInf, 1.0}, 1);
  EXPECT_EQ(row.logprob, -kTruthInf);
  EXPECT_EQ(logprob_bound(row, 12), 0);
  EXPECT_NEAR(row.entropy(), 0.5822, 1e-4);
  EXPECT_EQ(row.others, row.sum);
}

TEST(RowTruth, WithoutProbabilitiesThereIsNoLogprob) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::vector<double>& logits :
       {std::vector<double>{-kTruthInf, -kTruthInf}, std::vector<double>{1, nan},
        std::vector<double>{kTruthInf, 1}, std::vector<double>{nan, -kTruthInf}}) {
    EXPECT_TRUE(std::isnan(row_truth(logits, 0).logprob));
  }
}

TEST(Truth, IntervalsStayFiniteForLogitsFarFromZero) {
  for (const char* dtype : {"f32", "bf16", "f64"}) {
    const Truth truth =
        truth_of(std::string("lens=9+4 mask=all vocab=20 values=far_offset dtype=") + dtype);
    EXPECT_TRUE(std::isfinite(truth.objective.loss.low)) << dtype;
    EXPECT_TRUE(std::isfinite(truth.objective.loss.high)) << dtype;
    for (const auto& [name, metric] : truth.objective.metrics) {
      if (name.starts_with("ppl")) continue;  // exp of an interval that is 1e5 wide
      EXPECT_TRUE(std::isfinite(metric.amount.radius())) << name << " " << dtype;
    }
  }
}

TEST(Truth, ALossIsNoFurtherBelow0WhereLogitsAreLarge) {
  const OneRow far(DType::f64, {-1e30, -1e30}, 1);
  EXPECT_GT(far.truth.objective.loss.low, -1e-5);
  EXPECT_GT(far.truth.objective.loss.high, 1e22);  // the logits may be read as float32
  EXPECT_LT(OneRow(DType::f32, {-1e30, -1e30}, 1).truth.objective.loss.high, 0.6932);
}

TEST(Truth, AnImpossibleTargetMakesTheLossInfinite) {
  const Truth truth = truth_of("lens=9+4 mask=all vocab=20 values=impossible_target");
  EXPECT_EQ(truth.objective.loss.value, kTruthInf);
  EXPECT_TRUE(truth.objective.loss.is_exact());
  EXPECT_NEAR(truth.objective.grad_logprob[1].value, -1.0 / 11, 1e-12);
}

TEST(Truth, RowsThatAreTrainedOnNeedAFiniteGradient) {
  const Problem problem = make_problem(parse_case("lens=3 mask=011 vocab=4"));
  Truth truth = make_truth(problem, compute_rows(problem, 1), *make_objective({}, true), 12);
  EXPECT_NO_THROW(require_numbers(problem, truth));
  truth.objective.grad_logprob[2].value = kTruthInf;  // predicts nothing
  EXPECT_NO_THROW(require_numbers(problem, truth));
  truth.objective.grad_logprob[1].value = kTruthInf;
  EXPECT_THAT([&] { require_numbers(problem, truth); },
              testing::ThrowsMessage<Error>(
                  testing::HasSubstr("d loss / d logprob of sequence 0, token 1 is inf")));
}

TEST(Truth, PositiveExamplesAreThoseOfTheRewards) {
  LinearCase c = make_linear_case(
      "objective=clipped_pg objective.positive_example_nll_weight=0.5 lens=5+7 mask=all vocab=19 "
      "hidden=5");
  ASSERT_EQ(c.problem.rewards.size(), 2u);
  const auto loss_with = [&](float first, float second) {
    c.problem.rewards = {first, second};
    return make_truth(c.problem, c.rows, *c.objective, 19).objective.loss.value;
  };
  EXPECT_NE(loss_with(1, 0), loss_with(0, 1));
  EXPECT_NE(loss_with(1, 0), loss_with(0, 0));
}

TEST(Truth, NoLossAndNoMetricIsNan) {
  const Problem problem = make_problem(parse_case("lens=3 mask=011 vocab=4"));
  const Truth right = make_truth(problem, compute_rows(problem, 1), *make_objective({}, true), 12);
  Truth truth = right;
  truth.objective.loss.value = std::nan("");
  EXPECT_THAT([&] { require_numbers(problem, truth); },
              testing::ThrowsMessage<Error>(testing::EndsWith("nll: the loss is nan")));
  truth.rows[1].logprob = -kTruthInf;
  EXPECT_THAT([&] { require_numbers(problem, truth); },
              testing::ThrowsMessage<Error>(testing::EndsWith(
                  "the loss is nan, where the target of sequence 0, token 1 has probability 0")));
  truth = right;
  truth.objective.metrics.begin()->second.amount.value = std::nan("");
  EXPECT_THAT([&] { require_numbers(problem, truth); },
              testing::ThrowsMessage<Error>(testing::EndsWith(
                  "metric " + truth.objective.metrics.begin()->first + " is nan")));
}

}  // namespace
}  // namespace lossgrid
