// SPDX-License-Identifier: Apache-2.0
// The truth of the gradients of hidden states and weight: against differences of the loss, against
// its own definition, and the rows and ids of a sample.
#include "harness/verify/truth/linear_truth.h"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/verify/truth/bounds.h"
#include "linear_emulation.h"

namespace lossgrid {
namespace {

using ::testing::Each;
using ::testing::IsSupersetOf;

/// Central differences of the float64 loss over the whole chain: hidden states and weight, logits,
/// log-probabilities, objective.
class LinearGradientByDifferences : public ::testing::TestWithParam<const char*> {};

/// Returns d loss / d `element` of a copy of the case's projection.
double difference(const LinearCase& c, std::vector<float> Projection::*factor, std::size_t at) {
  double losses[2];
  double places[2];
  for (const int side : {0, 1}) {
    auto changed = std::make_shared<Projection>(*c.problem.projection);
    float& element = ((*changed).*factor)[at];
    element += side == 0 ? -0x1p-13f : 0x1p-13f;
    places[side] = element;
    Problem problem = c.problem;
    problem.projection = changed;
    problem.logits = make_projected_logits(changed);
    apply_transform(problem);
    const std::vector<RowTruth> rows = compute_rows(problem, 1);
    losses[side] = make_truth(problem, rows, *c.objective, 12).objective.loss.value;
  }
  return (losses[1] - losses[0]) / (places[1] - places[0]);
}

TEST_P(LinearGradientByDifferences, Agrees) {
  const LinearCase c = make_linear_case(GetParam());
  const LinearTruth& linear = *c.truth.linear;
  ASSERT_FALSE(linear.sampled);
  ASSERT_EQ(linear.size, c.size());
  double largest = 0;
  for (std::int64_t t = 0; t < c.problem.tokens(); ++t) {
    const std::int64_t row = linear.hidden.find(t);
    ASSERT_EQ(row >= 0, c.truth.rows[t].valid);
    for (std::int64_t h = 0; h < c.size(); ++h) {
      const double want = row < 0 ? 0.0 : linear.hidden.want[row * c.factors() + h];
      largest = std::max(largest, std::abs(want));
      EXPECT_NEAR(difference(c, &Projection::hidden, t * c.factors() + h), want, 1e-8)
          << "hidden states " << t << ", " << h;
    }
  }
  ASSERT_EQ(linear.weight.rows.size(), static_cast<std::size_t>(c.vocab()));
  for (std::size_t k = 0; k < linear.weight.want.size(); ++k) {
    largest = std::max(largest, std::abs(linear.weight.want[k]));
    EXPECT_NEAR(difference(c, &Projection::weight, k), linear.weight.want[k], 1e-8)
        << "weight " << k;
  }
  EXPECT_GT(largest, 0.01);
}

INSTANTIATE_TEST_SUITE_P(
    Objectives, LinearGradientByDifferences,
    ::testing::Values("lens=4+1+3 mask=1101+1+011 vocab=6 hidden=3 temperature=0.7",
                      "lens=4+1+3 mask=1101+1+011 vocab=6 hidden=3 lm_head_bias=true "
                      "temperature=0.7",
                      "lens=5+2 mask=all vocab=5 hidden=4 lm_head_bias=true logit_scale=1.1 "
                      "logit_softcap=20 temperature=0.7",
                      "lens=5+2 mask=all values=peaked vocab=5 hidden=4 temperature=0.7",
                      "objective=dpo objective.sft_loss_weight=0.1 objective.reference_policy_kl_"
                      "penalty=0.5 lens=5+7+4+3 vocab=6 hidden=3 temperature=0.7",
                      "objective=clipped_pg objective.reference_policy_kl_penalty=0 "
                      "objective.token_level_loss=false "
                      "objective.sequence_level_importance_ratios=true "
                      "lens=5+7+4 mask=all vocab=6 hidden=3 temperature=0.7"));

/// The numbers of one element, by the definitions.
struct Element {
  double want = 0, squares = 0, magnitude = 0, radius = 0, rounded = 0;
  void add(double dz, double tau, double factor) {
    want += dz * factor;
    squares += dz * factor * dz * factor;
    magnitude += std::abs(dz * factor);
    radius += tau * std::abs(factor);
    rounded += round_to(DType::bf16, dz) * factor;
  }
};

void expect_element(const LinearRows& rows, std::size_t at, const Element& element,
                    double temperature) {
  const double scale = 1e-13 + 1e-12 * element.magnitude / temperature;
  EXPECT_NEAR(rows.want[at], element.want / temperature, scale);
  EXPECT_NEAR(rows.spread[at], std::sqrt(element.squares) / temperature, scale);
  EXPECT_NEAR(rows.magnitude[at], element.magnitude / temperature, scale);
  EXPECT_NEAR(rows.radius[at], element.radius / temperature, 1e-9 * element.radius);
  if (!rows.rounded.empty()) {
    EXPECT_NEAR(rows.rounded[at], element.rounded / temperature, scale);
  }
}

TEST(LinearTruth, IsWhatItIsDefinedToBe) {
  for (const char* dtype : {"f32", "bf16"}) {
    const LinearCase c = make_linear_case(
        std::string("objective=dpo lens=5+7+4+3 vocab=19 hidden=5 temperature=0.7 dtype=") + dtype);
    const Projection& projection = *c.problem.projection;
    const LinearTruth& linear = *c.truth.linear;
    EXPECT_EQ(linear.weight.rounded.empty(), c.problem.spec.dtype == DType::f32);
    EXPECT_EQ(linear.hidden.rounded.empty(), c.problem.spec.dtype == DType::f32);
    EXPECT_EQ(linear.hidden.terms, 19);
    EXPECT_EQ(linear.weight.terms, std::ssize(linear.hidden.rows));
    std::vector<Element> weight(linear.weight.want.size());
    for (std::size_t k = 0; k < linear.hidden.rows.size(); ++k) {
      const std::int64_t t = linear.hidden.rows[k];
      const RowTruth& row = c.truth.rows[t];
      const Enclosure& g = c.truth.objective.grad_logprob[t];
      EXPECT_GT(g.radius(), 0);  // dpo: the interval of g is part of tau
      std::vector<double> z(19), e(19), p(19), dz(19);
      c.problem.logits->read(t, 0, std::span<double>(z));
      read_logit_errors(*c.problem.logits, t, 0, z, e);
      truth_probabilities(row, z, p);
      truth_gradient(row, g.value, p, 0, dz);
      const GradientBound bound(row, g, DType::f32, 19);
      std::vector<Element> hidden(5);
      for (std::int64_t v = 0; v < 19; ++v) {
        const double tau = bound.computation(z[v], p[v], v == row.target, e[v]) +
                           bound.objective(z[v], p[v], v == row.target);
        for (std::int64_t h = 0; h < 5; ++h) {
          hidden[h].add(dz[v], tau, projection.weight_row(v)[h]);
          weight[v * 5 + h].add(dz[v], tau, projection.hidden_row(t)[h]);
        }
      }
      for (std::size_t h = 0; h < 5; ++h) {
        expect_element(linear.hidden, k * 5 + h, hidden[h], projection.temperature);
      }
    }
    for (std::size_t k = 0; k < weight.size(); ++k) {
      expect_element(linear.weight, k, weight[k], projection.temperature);
    }
  }
}

/// Changes each logit of a row in turn by its rounding, and adds up the changes.
TEST(LinearTruth, RoundingsOfLogitsAreDerivativesByThem) {
  const LinearCase c =
      make_linear_case("lens=5+3 mask=all vocab=7 hidden=3 temperature=0.7 dtype=bf16");
  const Truth truth = make_truth(c.problem, c.rows, *c.objective, 7, {.logits = true});
  const Projection& projection = *c.problem.projection;
  const LinearTruth& linear = *truth.linear;
  EXPECT_TRUE(c.truth.linear->weight.logit_rounding.empty());
  EXPECT_EQ(linear.weight.radius, c.truth.linear->weight.radius);
  std::vector<double> weight(linear.weight.want.size());
  for (std::size_t k = 0; k < linear.hidden.rows.size(); ++k) {
    const std::int64_t t = linear.hidden.rows[k];
    const double g = truth.objective.grad_logprob[t].value;
    std::vector<double> z(7), p(7);
    c.problem.logits->read(t, 0, std::span<double>(z));
    truth_probabilities(c.rows[t], z, p);
    double mean = 0;
    std::vector<double> hidden(3);
    for (std::size_t rounded = 0; rounded < 7; ++rounded) {
      const double e = std::expm1(0x1p-8 * std::abs(z[rounded]));
      mean += p[rounded] * e;
      std::vector<double> change(3);
      for (std::size_t v = 0; v < 7; ++v) {
        // d (g ([v = y] - p_v)) by the logit that is rounded.
        const double dz = -g * p[v] * ((v == rounded ? 1 : 0) - p[rounded]) * e;
        for (std::size_t h = 0; h < 3; ++h) {
          change[h] += dz * projection.weight_row(static_cast<std::int64_t>(v))[h];
          weight[v * 3 + h] += std::pow(dz * projection.hidden_row(t)[h], 2);
        }
      }
      for (std::size_t h = 0; h < 3; ++h) hidden[h] += change[h] * change[h];
    }
    for (std::size_t h = 0; h < 3; ++h) {
      const double want = std::sqrt(hidden[h]) / projection.temperature;
      EXPECT_GT(want, 1e-6);
      EXPECT_NEAR(linear.hidden.logit_rounding[k * 3 + h], want, 1e-9 * want);
    }
    EXPECT_NEAR(truth.rows[t].mean_error - c.rows[t].mean_error, mean, 1e-9 * mean);
    EXPECT_GT(logprob_bound(truth.rows[t], 7), logprob_bound(c.rows[t], 7) + mean);
  }
  for (std::size_t k = 0; k < weight.size(); ++k) {
    const double want = std::sqrt(weight[k]) / projection.temperature;
    EXPECT_NEAR(linear.weight.logit_rounding[k], want, 1e-9 * want);
  }
}

TEST(LinearTruth, DoesNotDependOnThreads) {
  const LinearCase c = make_linear_case("lens=9+14 mask=all vocab=101 hidden=7 dtype=bf16");
  const LinearTruth one = make_linear_truth(c.problem, c.rows, c.truth.objective, 12, 1);
  const LinearTruth four = make_linear_truth(c.problem, c.rows, c.truth.objective, 12, 4);
  for (const auto part : {&LinearTruth::hidden, &LinearTruth::weight}) {
    EXPECT_EQ((one.*part).rows, (four.*part).rows);
    EXPECT_EQ((one.*part).want, (four.*part).want);
    EXPECT_EQ((one.*part).spread, (four.*part).spread);
    EXPECT_EQ((one.*part).magnitude, (four.*part).magnitude);
    EXPECT_EQ((one.*part).radius, (four.*part).radius);
    EXPECT_EQ((one.*part).rounded, (four.*part).rounded);
  }
}

LinearTruth sample(const LinearCase& c, const LinearLimits& limits) {
  return make_linear_truth(c.problem, c.rows, c.truth.objective, static_cast<int>(c.vocab()), 2,
                           limits);
}

/// Expects the rows of a sample to be those of the whole, to the last bit.
void expect_same_rows(const LinearRows& some, const LinearRows& all, std::int64_t size) {
  EXPECT_TRUE(std::is_sorted(some.rows.begin(), some.rows.end()));
  for (std::size_t k = 0; k < some.rows.size(); ++k) {
    const std::int64_t row = all.find(some.rows[k]);
    ASSERT_GE(row, 0);
    EXPECT_TRUE(std::equal(some.want.begin() + k * size, some.want.begin() + (k + 1) * size,
                           all.want.begin() + row * size));
    EXPECT_TRUE(std::equal(some.radius.begin() + k * size, some.radius.begin() + (k + 1) * size,
                           all.radius.begin() + row * size));
  }
}

TEST(LinearTruth, ASampleHoldsEdgesThenTargetsThenOthers) {
  const LinearCase c = make_linear_case("lens=31 mask=all vocab=1000 hidden=4");  // 30 rows
  const std::vector<std::int32_t> edges = shard_edge_ids(1000);
  std::vector<std::int64_t> targets;
  for (const RowTruth& row : c.rows) {
    if (row.valid) targets.push_back(row.target);
  }
  const auto ids_at = [&](std::int64_t ids) {
    const LinearTruth some = sample(c, {std::int64_t{1} << 40, ids * 4});
    EXPECT_TRUE(some.sampled);
    EXPECT_THAT(some.weight.rows, IsSupersetOf(edges)) << ids;
    expect_same_rows(some.weight, c.truth.linear->weight, 4);
    return some.weight.rows;
  };
  EXPECT_EQ(ids_at(1).size(), edges.size());  // whatever the limits
  const std::vector<std::int64_t> few = ids_at(static_cast<std::int64_t>(edges.size()) + 5);
  EXPECT_EQ(few.size(), edges.size() + 5);
  for (const std::int64_t id : few) {
    EXPECT_TRUE(std::count(edges.begin(), edges.end(), id) +
                    std::count(targets.begin(), targets.end(), id) >
                0);
  }
  const std::vector<std::int64_t> many = ids_at(200);
  EXPECT_EQ(many.size(), 200u);
  EXPECT_THAT(many, IsSupersetOf(targets));
  for (std::size_t k = 1; k < many.size(); ++k) EXPECT_LE(many[k] - many[k - 1], 8);
}

TEST(LinearTruth, ASampleHoldsEvenlySpreadRows) {
  const LinearCase c = make_linear_case("lens=101 mask=all vocab=40 hidden=4");  // 100 rows
  const auto rows_at = [&](const LinearLimits& limits) {
    const LinearTruth some = sample(c, limits);
    EXPECT_TRUE(some.sampled);
    expect_same_rows(some.hidden, c.truth.linear->hidden, 4);
    EXPECT_EQ(some.hidden.rows.front(), 0);
    EXPECT_EQ(some.hidden.rows.back(), 99);
    return some.hidden.rows;
  };
  const std::int64_t none = std::int64_t{1} << 40;
  EXPECT_EQ(rows_at({none, 1}).size(), 2u);
  EXPECT_EQ(rows_at({none, 10 * 4}),
            (std::vector<std::int64_t>{0, 11, 22, 33, 44, 55, 66, 77, 88, 99}));
  EXPECT_EQ(rows_at({10 * 40 * 4, none}).size(), 10u);  // products: rows x V x H
  EXPECT_FALSE(sample(c, {100 * 40 * 4, 100 * 4}).sampled);
  EXPECT_FALSE(sample(c, kNoLimits).sampled);
}

TEST(LinearTruth, NothingValidIsZeroEverywhere) {
  const LinearCase c = make_linear_case("lens=3+2 mask=000+00 vocab=7 hidden=4");
  EXPECT_TRUE(c.truth.linear->hidden.rows.empty());
  EXPECT_EQ(c.truth.linear->weight.rows.size(), 7u);
  EXPECT_THAT(c.truth.linear->weight.want, Each(0.0));
  EXPECT_FALSE(c.truth.linear->sampled);
}

TEST(LinearTruth, IsNotThereForGivenLogits) {
  const Problem problem = make_problem(parse_case("lens=3+2 vocab=7"));
  EXPECT_EQ(make_truth(problem, compute_rows(problem, 1), *make_objective({}, false), 12).linear,
            nullptr);
}

}  // namespace
}  // namespace lossgrid
