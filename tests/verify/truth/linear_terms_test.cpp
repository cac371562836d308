// SPDX-License-Identifier: Apache-2.0
// The truth of the gradients of hidden states and weight where the loss depends on row terms.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "harness/verify/truth/bounds.h"
#include "harness/verify/truth/linear_bounds.h"
#include "harness/verify/truth/linear_truth.h"
#include "harness/verify/truth/logit_gradient.h"
#include "linear_emulation.h"
#include "term_objective.h"

namespace lossgrid {
namespace {

constexpr TermWeights kLinearWeights[] = {kAllTerms, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}};

struct LinearTerms {
  Problem problem;
  std::vector<RowTruth> rows;
  Truth truth;
};

LinearTerms make_terms(const std::string& text, const TermWeights& weights,
                       const DeclaredRowRoundings& declared = {}) {
  LinearTerms c{make_problem(parse_case(text)), {}, {}};
  c.rows = compute_rows(c.problem, 1);
  c.truth = make_truth(c.problem, c.rows, TermObjective(weights), 7, declared);
  return c;
}

/// Returns d loss / d `element` by central differences of the float64 loss.
double difference(const LinearTerms& c, const TermWeights& weights,
                  std::vector<float> Projection::*factor, std::size_t at) {
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
    losses[side] = make_truth(problem, compute_rows(problem, 1), TermObjective(weights), 7)
                       .objective.loss.value;
  }
  return (losses[1] - losses[0]) / (places[1] - places[0]);
}

TEST(LinearTerms, AreThoseOfDifferences) {
  for (const TermWeights& weights : kLinearWeights) {
    const LinearTerms c =
        make_terms("lens=4+1+3 mask=1101+1+011 vocab=6 hidden=3 temperature=0.7", weights);
    const LinearTruth& linear = *c.truth.linear;
    double largest = 0;
    for (std::size_t k = 0; k < linear.hidden.rows.size(); ++k) {
      for (std::size_t h = 0; h < 3; ++h) {
        const double want = linear.hidden.want[3 * k + h];
        const std::size_t at = 3 * static_cast<std::size_t>(linear.hidden.rows[k]) + h;
        EXPECT_NEAR(difference(c, weights, &Projection::hidden, at), want, 1e-7);
        largest = std::max(largest, std::abs(want));
      }
    }
    for (std::size_t k = 0; k < linear.weight.want.size(); ++k) {
      EXPECT_NEAR(difference(c, weights, &Projection::weight, k), linear.weight.want[k], 1e-7);
    }
    EXPECT_GT(largest, 0.01);
  }
}

TEST(LinearTerms, TauIsTheBoundOfTheGradientOfLogits) {
  LinearTerms c = make_terms("lens=5+3 mask=all vocab=7 hidden=3 temperature=0.7", kAllTerms);
  for (Enclosure& h : c.truth.objective.grad_terms[RowTerm::entropy])
    h = Enclosure::around(h.value, 1e-3);
  const LinearTruth linear = make_linear_truth(c.problem, c.rows, c.truth.objective, 7, 1);
  const Projection& projection = *c.problem.projection;
  for (std::size_t k = 0; k < linear.hidden.rows.size(); ++k) {
    const std::int64_t t = linear.hidden.rows[k];
    const RowTruth& row = c.rows[t];
    const RowGradientTruth gradient = c.truth.objective.gradient(t);
    std::vector<double> z(7), e(7), p(7), dz(7);
    c.problem.logits->read(t, 0, std::span<double>(z));
    read_logit_errors(*c.problem.logits, t, 0, z, e);
    truth_probabilities(row, z, p);
    LogitGradient(row, gradient).write(z, p, 0, dz);
    const GradientBound bound(row, gradient, DType::f32, 7);
    double radius = 0;
    double want = 0;
    for (std::size_t v = 0; v < 7; ++v) {
      const bool is_target = static_cast<std::int32_t>(v) == row.target;
      const double tau =
          bound.computation(z[v], p[v], is_target, e[v]) + bound.objective(z[v], p[v], is_target);
      const float* w = projection.weight_row(static_cast<std::int64_t>(v));
      radius += tau * std::abs(w[1]);
      want += dz[v] * w[1];
    }
    EXPECT_NEAR(linear.hidden.radius[3 * k + 1], radius / projection.temperature, 1e-9 * radius);
    EXPECT_NEAR(linear.hidden.want[3 * k + 1], want / projection.temperature, 1e-12);
  }
}

/// Returns dz of the row with logits `z`.
std::vector<double> changed_gradient(const std::vector<double>& z, std::int32_t target,
                                     const RowGradientTruth& weights) {
  const RowTruth row = row_truth(z, target);
  std::vector<double> dz(z.size());
  truth_probabilities(row, z, dz);
  LogitGradient(row, weights).write(z, dz, 0, dz);
  return dz;
}

TEST(LinearTerms, RoundingsOfLogitsAreDerivativesByThem) {
  for (const TermWeights& weights : kLinearWeights) {
    const LinearTerms c = make_terms(
        "lens=5+3 mask=all vocab=7 hidden=3 temperature=0.7 dtype=bf16", weights, {.logits = true});
    const LinearTruth& linear = *c.truth.linear;
    const Projection& projection = *c.problem.projection;
    std::vector<double> weight(linear.weight.want.size());
    for (std::size_t k = 0; k < linear.hidden.rows.size(); ++k) {
      const std::int64_t t = linear.hidden.rows[k];
      const RowGradientTruth gradient = c.truth.objective.gradient(t);
      std::vector<double> z(7);
      c.problem.logits->read(t, 0, std::span<double>(z));
      std::vector<double> hidden(3);
      for (std::size_t rounded = 0; rounded < 7; ++rounded) {
        std::vector<double> up = z;
        std::vector<double> down = z;
        up[rounded] += 1e-5;
        down[rounded] -= 1e-5;
        const std::vector<double> above = changed_gradient(up, c.rows[t].target, gradient);
        const std::vector<double> below = changed_gradient(down, c.rows[t].target, gradient);
        std::vector<double> change(3);
        for (std::size_t v = 0; v < 7; ++v) {
          const double dz = (above[v] - below[v]) / 2e-5 * logit_rounding(z[rounded]);
          for (std::size_t h = 0; h < 3; ++h) {
            change[h] += dz * projection.weight_row(static_cast<std::int64_t>(v))[h];
            weight[v * 3 + h] += std::pow(dz * projection.hidden_row(t)[h], 2);
          }
        }
        for (std::size_t h = 0; h < 3; ++h) hidden[h] += change[h] * change[h];
      }
      for (std::size_t h = 0; h < 3; ++h) {
        const double want = std::sqrt(hidden[h]) / projection.temperature;
        EXPECT_NEAR(linear.hidden.logit_rounding[k * 3 + h], want, 1e-6 * want + 1e-9);
      }
    }
    for (std::size_t k = 0; k < weight.size(); ++k) {
      const double want = std::sqrt(weight[k]) / projection.temperature;
      EXPECT_NEAR(linear.weight.logit_rounding[k], want, 1e-6 * want + 1e-9);
    }
  }
}

TEST(LinearTerms, ANumberThatVanishesGrowsWithThem) {
  Truth truth;
  truth.rows = {row_truth(std::vector<double>{0.0, 0.0}, 0)};
  truth.objective.grad_logprob = {-2.0};
  EXPECT_EQ(LinearBound(truth, DType::f32, DType::f32, 0).floor(), 2 * kVanishingF32);
  truth.objective.grad_terms[RowTerm::logsumexp] = {3.0};
  EXPECT_EQ(LinearBound(truth, DType::f32, DType::f32, 0).floor(), 5 * kVanishingF32);
}

}  // namespace
}  // namespace lossgrid
