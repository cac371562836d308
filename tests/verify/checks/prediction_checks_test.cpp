// SPDX-License-Identifier: Apache-2.0
// Checks of the numbers about predictions against rows worked out on paper: their bounds are sharp,
// and top-1 is exact but where roundings of the logits decide.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "check_named.h"
#include "harness/loss/registry.h"
#include "harness/verify/checks/output_checks.h"
#include "one_row.h"

namespace lossgrid {
namespace {

// OneRow with x = (ln 3, 0) has p = (3/4, 1/4), s = 4/3, S1 = ln 3 / 4, 12 serial additions.
constexpr double kSumP2 = 0.625;
constexpr double kMeanLogit = kLn3 / 2;
// 4 (8 P + 2 S1 / s + 2 P (S1 + ln s)) + 3 x 12 P
constexpr double kSumP2Bound = 46.959584 * kRoundoff32;
// 4 (8 + ln 3 / 2 + ln 3 / 2) + (1 + ln 3 / 2) 12
constexpr double kMeanLogitBound = 54.986121 * kRoundoff32;
// 2 P 4 ln 4, for float64 logits
constexpr double kSumP2Reading = 6.931472 * kRoundoff32;

/// Returns true if `value` passes as the term of the row.
bool prediction_passes(const OneRow& row, RowTerm term, double value) {
  std::vector<float> logprobs(2, static_cast<float>(row.truth.rows[0].logprob));
  std::vector<float> column(2, static_cast<float>(value));
  TokenOutputs got{logprobs};
  got.terms[term] = column;
  const std::vector<Check> checks =
      check_tokens(row.problem, row.truth, row.places, got, {}, OneRow::kSerialAdds, 0);
  const Check check = check_named(checks, std::string(name(term)));
  EXPECT_EQ(check.compared(), 1);
  return check.passed();
}

TEST(PredictionChecks, AreSharp) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const OneRow row(dtype, {kLn3, 0}, 1);
    const double reading = dtype == DType::f64 ? kSumP2Reading : 0;
    expect_sharp("sum_p2", [&](double share) {
      return prediction_passes(row, RowTerm::sum_p2, kSumP2 + share * (kSumP2Bound + reading));
    });
    expect_sharp("mean_logit", [&](double share) {
      return prediction_passes(row, RowTerm::mean_logit, kMeanLogit + share * kMeanLogitBound);
    });
  }
}

TEST(PredictionChecks, LogitsOfMinusInfinityAreNotInTheMean) {
  const OneRow row(DType::f32, {kLn3, -HUGE_VAL, 0, -HUGE_VAL}, 0);
  expect_sharp("mean_logit", [&](double share) {
    return prediction_passes(row, RowTerm::mean_logit, kMeanLogit + share * kMeanLogitBound);
  });
}

TEST(PredictionChecks, AMeanWhoseSumOverflowsFloat32MayBeMinusInfinity) {
  constexpr double kLowest = std::numeric_limits<float>::lowest();
  const OneRow row(DType::f32, {0, kLowest, kLowest, 0}, 0);
  EXPECT_TRUE(prediction_passes(row, RowTerm::mean_logit, kLowest / 2));
  EXPECT_TRUE(prediction_passes(row, RowTerm::mean_logit, -HUGE_VAL));
  EXPECT_FALSE(prediction_passes(row, RowTerm::mean_logit, HUGE_VAL));
  EXPECT_FALSE(prediction_passes(row, RowTerm::mean_logit, kLowest / 4));
  EXPECT_FALSE(prediction_passes(row, RowTerm::mean_logit, std::nan("")));
  EXPECT_TRUE(row.truth.rows[0].may_overflow(RowTerm::mean_logprob));
  // One of them is a sum that float32 has.
  const OneRow alone(DType::f32, {0, kLowest, 0, 0}, 0);
  EXPECT_FALSE(prediction_passes(alone, RowTerm::mean_logit, -HUGE_VAL));
  EXPECT_FALSE(alone.truth.rows[0].may_overflow(RowTerm::mean_logprob));
}

TEST(PredictionChecks, TheLargestFloat32MayStandForALogitBeyond) {
  constexpr double kLowest = std::numeric_limits<float>::lowest();
  const OneRow row(DType::f64, {0, 2 * kLowest}, 0);
  EXPECT_TRUE(prediction_passes(row, RowTerm::mean_logit, kLowest));
  EXPECT_TRUE(prediction_passes(row, RowTerm::mean_logit, kLowest / 2));
  EXPECT_TRUE(prediction_passes(row, RowTerm::mean_logit, -HUGE_VAL));
  EXPECT_FALSE(prediction_passes(row, RowTerm::mean_logit, kLowest / 4));
  EXPECT_FALSE(prediction_passes(row, RowTerm::mean_logit, 0));
}

/// The only top-1 that passes; -1 for either.
int right_top1(DType dtype, const std::vector<double>& logits, std::int32_t target) {
  const OneRow row(dtype, logits, target);
  EXPECT_FALSE(prediction_passes(row, RowTerm::top1, 0.5));
  EXPECT_FALSE(prediction_passes(row, RowTerm::top1, -1));
  const bool zero = prediction_passes(row, RowTerm::top1, 0);
  const bool one = prediction_passes(row, RowTerm::top1, 1);
  EXPECT_TRUE(zero || one);
  return zero && one ? -1 : one ? 1 : 0;
}

TEST(PredictionChecks, Top1IsTheLowestIdWithTheLargestLogit) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    EXPECT_EQ(right_top1(dtype, {0, 2, 1}, 1), 1);
    EXPECT_EQ(right_top1(dtype, {0, 2, 1}, 2), 0);
    EXPECT_EQ(right_top1(dtype, {0, 2, 2}, 1), 1);
    EXPECT_EQ(right_top1(dtype, {0, 2, 2}, 2), 0);
    EXPECT_EQ(right_top1(dtype, {-HUGE_VAL, -3, -HUGE_VAL}, 1), 1);
    EXPECT_EQ(right_top1(dtype, {-HUGE_VAL, -3, -HUGE_VAL}, 0), 0);
    EXPECT_EQ(right_top1(dtype, {1}, 0), 1);
  }
}

TEST(PredictionChecks, Top1OfFloat64LogitsMayBeThatOfFloat32) {
  EXPECT_EQ(right_top1(DType::f64, {1, 1 + 1e-9}, 0), -1);
  EXPECT_EQ(right_top1(DType::f64, {1, 1 + 1e-9}, 1), -1);
  EXPECT_EQ(right_top1(DType::f64, {1, 1 + 1e-6}, 0), 0);
  EXPECT_EQ(right_top1(DType::f64, {1, 1 + 1e-6}, 1), 1);
  EXPECT_EQ(right_top1(DType::f32, {1e-39, 1.1e-39}, 0), -1);  // denormal numbers
}

TEST(PredictionChecks, MetricsAreTheMeansOfValidTokens) {
  const Problem problem = make_problem(parse_case("lens=9+5 mask=ragged vocab=7"));
  const std::unique_ptr<Objective> objective = make_objective({}, false, true);
  const Truth truth = make_truth(problem, compute_rows(problem, 1), *objective, 7);
  double tokens = 0;
  double sum_p2 = 0;
  double top1 = 0;
  double mean_logit = 0;
  for (const RowTruth& row : truth.rows) {
    if (!row.valid) continue;
    tokens += 1;
    sum_p2 += row.sum_p2();
    top1 += row.is_top() ? 1 : 0;
    mean_logit += row.mean_logit();
  }
  const auto value = [&](const char* name) {
    return truth.objective.metrics.at(name).value()->value;
  };
  EXPECT_GT(tokens, 3);
  EXPECT_NEAR(value("sum_pi_squared_avg"), sum_p2 / tokens, 1e-14);
  EXPECT_NEAR(value("mean_token_accuracy"), top1 / tokens, 1e-14);
  EXPECT_NEAR(value("mean_logits_avg"), mean_logit / tokens, 1e-14);
}

}  // namespace
}  // namespace lossgrid
