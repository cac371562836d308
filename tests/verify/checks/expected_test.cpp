// SPDX-License-Identifier: Apache-2.0
// Results in the unsharded layout, of problems that start from hidden states.
#include "harness/verify/checks/expected.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "harness/verify/truth/linear_bounds.h"
#include "linear_emulation.h"

namespace lossgrid {
namespace {

/// Returns the gathered results of a plain implementation.
BundleResults results_of(const LinearCase& c, const EmulatedOutputs& got) {
  BundleResults results;
  results.loss = c.truth.objective.loss.value;
  for (const auto& [name, metric] : c.truth.objective.metrics) {
    if (const auto value = metric.value()) results.metrics[name] = value->value;
  }
  results.logprobs.assign(got.logprobs.size(), 0.0);
  for (std::size_t t = 0; t + 1 < got.logprobs.size(); ++t) {
    if (c.rows[t].target >= 0) results.logprobs[t + 1] = got.logprobs[t];
  }
  results.entropy.assign(got.entropy.size(), 0.0);
  for (std::size_t t = 0; t + 1 < got.entropy.size(); ++t) {
    if (c.rows[t].target >= 0) results.entropy[t + 1] = got.entropy[t];
  }
  results.grad_hidden.assign(got.hidden.begin(), got.hidden.end());
  results.grad_weight = got.weight;
  return results;
}

/// Returns the names of the checks that fail.
std::string failures(const LinearCase& c, const BundleResults& expected, const BundleResults& got) {
  std::string names;
  for (const Check& check : check_expected(c.problem, c.truth, static_cast<int>(c.vocab()),
                                           expected, got, {c.problem.spec.dtype})) {
    if (!check.passed()) names += check.name() + " ";
  }
  return names;
}

TEST(Expected, ABiasHasAGradientOfItsOwn) {
  const LinearCase c = make_linear_case("lens=9+1+6 mask=all vocab=30 hidden=5 lm_head_bias=true");
  const BundleResults expected = expected_results(c.problem, c.truth);
  ASSERT_EQ(expected.grad_bias.size(), 30u);
  ASSERT_EQ(expected.grad_weight.size(), 150u);
  ASSERT_EQ(expected.grad_hidden.size(), 80u);
  EXPECT_EQ(failures(c, expected, expected), "");
  BundleResults wrong = expected;
  wrong.grad_bias[c.rows[0].target] *= 1.01;
  EXPECT_EQ(failures(c, expected, wrong), "expected.grad_bias ");
  wrong = expected;
  wrong.grad_weight[c.rows[0].target * 5 + 4] *= 1.01;
  EXPECT_EQ(failures(c, expected, wrong), "expected.grad_weight ");
}

TEST(Expected, GradientsOfBothFactorsAreCompared) {
  for (const char* dtype : {"f32", "bf16"}) {
    const LinearCase c =
        make_linear_case(std::string("lens=9+1+6 mask=ragged vocab=30 hidden=5 dtype=") + dtype);
    const BundleResults expected = expected_results(c.problem, c.truth);
    EXPECT_TRUE(expected.grad_logits.empty());
    const BundleResults right = results_of(c, emulate(c));
    EXPECT_EQ(failures(c, expected, right), "") << dtype;

    BundleResults wrong = right;
    for (double& x : wrong.entropy) x += 1e-3;
    EXPECT_EQ(failures(c, expected, wrong), "expected.entropy ");
    BundleResults without_entropy = expected;
    without_entropy.entropy.clear();
    EXPECT_EQ(failures(c, without_entropy, wrong), "");
    wrong = right;
    for (double& x : wrong.grad_weight) x *= 1.05;
    EXPECT_EQ(failures(c, expected, wrong), "expected.grad_weight ");
    wrong = right;
    for (double& x : wrong.grad_hidden) x *= 1.05;
    EXPECT_EQ(failures(c, expected, wrong), "expected.grad_hidden ");
    wrong = right;
    wrong.grad_hidden[9 * 5] = 1e-30;  // the only row of the second sequence predicts nothing
    EXPECT_EQ(failures(c, expected, wrong), "expected.grad_hidden ");
  }
}

TEST(Expected, GradientsOfBothFactorsAreThoseOfTheBundle) {
  // Not those of the truth, where the bundle has others.
  const LinearCase c = make_linear_case("lens=9+1+6 mask=ragged vocab=30 hidden=5");
  const BundleResults right = results_of(c, emulate(c));
  BundleResults expected = expected_results(c.problem, c.truth);
  BundleResults got = right;
  for (BundleResults* results : {&expected, &got}) {
    results->grad_hidden[1] += 1;
    results->grad_weight[1] += 1;
  }
  EXPECT_EQ(failures(c, expected, got), "");
  got.grad_hidden = right.grad_hidden;
  EXPECT_EQ(failures(c, expected, got), "expected.grad_hidden ");
  got.grad_weight = right.grad_weight;
  EXPECT_EQ(failures(c, expected, got), "expected.grad_hidden expected.grad_weight ");
}

/// Returns the place of the worst element of the check `name`.
ElementPlace worst_place(const LinearCase& c, const BundleResults& expected,
                         const BundleResults& got, const std::string& name) {
  for (const Check& check : check_expected(c.problem, c.truth, static_cast<int>(c.vocab()),
                                           expected, got, {c.problem.spec.dtype})) {
    if (check.name() == name && !check.passed()) return check.place();
  }
  ADD_FAILURE() << name << " passes";
  return {};
}

void expect_place(const ElementPlace& place, std::int64_t sequence, std::int64_t token,
                  std::int64_t id) {
  EXPECT_EQ(place.rank, 0);  // results of a bundle have no rank
  EXPECT_EQ(place.sequence, sequence);
  EXPECT_EQ(place.token, token);
  EXPECT_EQ(place.vocab_id, id);
}

TEST(Expected, PlacesAreThoseOfTheUnshardedLayout) {
  const LinearCase c = make_linear_case("lens=9+1+6 mask=all vocab=30 hidden=5");
  const BundleResults right = expected_results(c.problem, c.truth);
  BundleResults wrong = right;
  wrong.logprobs[13] += 1;  // of token 3 of the last sequence, which row 2 predicts
  wrong.entropy[13] += 1;
  wrong.grad_hidden[12 * 5 + 4] += 1;
  wrong.grad_weight[7 * 5] += 1;
  const std::int64_t target = c.rows[12].target;
  expect_place(worst_place(c, right, wrong, "expected.logprobs"), 2, 2, target);
  expect_place(worst_place(c, right, wrong, "expected.entropy"), 2, 2, target);
  expect_place(worst_place(c, right, wrong, "expected.grad_hidden"), 2, 2, -1);
  expect_place(worst_place(c, right, wrong, "expected.grad_weight"), -1, -1, 7);
}

/// Expects that an element of `gradient` passes just within `bound` of it, and not beyond.
void expect_own_bound(const LinearCase& c, std::vector<double> BundleResults::*gradient,
                      std::size_t at, double bound) {
  const BundleResults expected = expected_results(c.problem, c.truth);
  const auto passes = [&](double error) {
    BundleResults got = expected;
    (got.*gradient)[at] += error;
    return failures(c, expected, got).empty();
  };
  EXPECT_TRUE(passes(0.9999 * bound)) << at;
  EXPECT_FALSE(passes(1.0001 * bound)) << at;
}

TEST(Expected, EachElementOfAGradientHasItsOwnBound) {
  const LinearCase c = make_linear_case("lens=9+1+6 mask=ragged vocab=30 hidden=5");
  const BundleResults expected = expected_results(c.problem, c.truth);
  const DType dtype = c.problem.spec.dtype;
  const LinearRows& hidden = c.truth.linear->hidden;
  const LinearBound of_hidden(c.truth, dtype, dtype, 0);
  for (std::size_t k = 0; k < hidden.rows.size() * 5; ++k) {
    const std::size_t at = static_cast<std::size_t>(hidden.rows[k / 5]) * 5 + k % 5;
    expect_own_bound(c, &BundleResults::grad_hidden, at,
                     of_hidden.element(hidden, k, expected.grad_hidden[at], 0));
  }
  const LinearRows& weight = c.truth.linear->weight;
  const LinearBound of_weight = LinearBound::of_weight(c.truth, {dtype});
  for (std::size_t k = 0; k < weight.rows.size() * 5; ++k) {
    const std::size_t at = static_cast<std::size_t>(weight.rows[k / 5]) * 5 + k % 5;
    expect_own_bound(c, &BundleResults::grad_weight, at,
                     of_weight.element(weight, k, expected.grad_weight[at], 0));
  }
}

TEST(Expected, MissingResultsAreNotCompared) {
  const LinearCase c = make_linear_case("lens=9+1+6 mask=ragged vocab=30 hidden=5");
  const BundleResults expected = expected_results(c.problem, c.truth);
  BundleResults loss_alone;
  loss_alone.loss = 2 * *expected.loss;
  loss_alone.metrics = expected.metrics;
  const std::vector<Check> checks =
      check_expected(c.problem, c.truth, 30, expected, loss_alone, {c.problem.spec.dtype});
  EXPECT_EQ(checks.size(), 1 + expected.metrics.size());
  EXPECT_EQ(failures(c, expected, loss_alone), "expected.loss ");
}

TEST(Expected, ALossIsHeldToItsRoundingsAndNoMore) {
  const LinearCase c = make_linear_case("lens=9+1+6 mask=ragged vocab=30 hidden=5");
  const BundleResults expected = expected_results(c.problem, c.truth);
  for (const double rounding : {0x1p-24, 0x1p-8}) {  // of float32, and of a loss rounded to bf16
    const DeclaredRoundings declared{.grad_logits = c.problem.spec.dtype, .loss = rounding};
    const double bound = c.truth.objective.loss.radius() + rounding * std::abs(*expected.loss);
    const auto passes = [&](double error) {
      BundleResults got;
      got.loss = *expected.loss + error;
      got.metrics = expected.metrics;
      return check_expected(c.problem, c.truth, 30, expected, got, declared)[0].passed();
    };
    EXPECT_TRUE(passes(0.9 * bound) && passes(-0.9 * bound)) << rounding;
    EXPECT_FALSE(passes(1.5 * bound) || passes(-1.5 * bound)) << rounding;
  }
}

TEST(Expected, AMetricIsHeldToItsOwnRoundingAndThatOfTheGivenOne) {
  const LinearCase c = make_linear_case("lens=9+1+6 mask=ragged vocab=30 hidden=5");
  const BundleResults expected = expected_results(c.problem, c.truth);
  for (const auto& [name, want] : expected.metrics) {
    const double bound =
        c.truth.objective.metrics.at(name).value()->radius() + 0x1p-24 * std::abs(want);
    const auto passes = [&](double error) {
      BundleResults got;
      got.metrics = expected.metrics;
      got.metrics[name] = want + error;
      const std::vector<Check> checks = check_expected(c.problem, c.truth, 30, expected, got, {});
      return std::all_of(checks.begin(), checks.end(),
                         [](const Check& check) { return check.passed(); });
    };
    EXPECT_TRUE(passes(0.98 * bound) && passes(-0.98 * bound)) << name;
    EXPECT_FALSE(bound > 0 && (passes(1.5 * bound) || passes(-1.5 * bound))) << name;
  }
}

TEST(Expected, EntropiesStandAtTheTokenThatWasChosen) {
  const LinearCase c = make_linear_case("lens=3+1+4 mask=all vocab=12 hidden=5");
  const BundleResults expected = expected_results(c.problem, c.truth);
  ASSERT_EQ(expected.entropy.size(), 8u);
  for (const std::size_t first : {0u, 3u, 4u}) EXPECT_EQ(expected.entropy[first], 0) << first;
  for (const std::size_t t : {1u, 2u, 5u, 6u, 7u}) {
    // By its definition, from the logits of the row before.
    std::vector<double> logits(12);
    c.problem.logits->read(static_cast<std::int64_t>(t) - 1, 0, std::span<double>(logits));
    double sum = 0;
    for (const double x : logits) sum += std::exp(x);
    double entropy = 0;
    for (const double x : logits) entropy -= std::exp(x) / sum * (x - std::log(sum));
    EXPECT_NEAR(expected.entropy[t], entropy, 1e-12) << t;
  }
}

TEST(Expected, ASampledTruthHasGradientsOfAllRows) {
  LinearCase c = make_linear_case("lens=9+1+6 mask=all vocab=200 hidden=5");
  const BundleResults whole = expected_results(c.problem, c.truth);
  BundleResults got = results_of(c, emulate(c));
  c.truth.linear = std::make_shared<const LinearTruth>(make_linear_truth(
      c.problem, c.rows, c.truth.objective, 200, 1, {std::int64_t{1} << 40, 5 * 5}));
  ASSERT_TRUE(c.truth.linear->sampled);
  const BundleResults expected = expected_results(c.problem, c.truth);
  EXPECT_EQ(expected.grad_hidden, whole.grad_hidden);
  EXPECT_EQ(expected.grad_weight, whole.grad_weight);
  EXPECT_EQ(failures(c, expected, got), "");
  got.grad_weight[199 * 5] += 1;  // the last id is in every sample
  EXPECT_EQ(failures(c, expected, got), "expected.grad_weight ");
}

}  // namespace
}  // namespace lossgrid
