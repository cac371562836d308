// SPDX-License-Identifier: Apache-2.0
// Bounds from below: for every tensor of a row and every dtype, an error of 0.9 bounds passes the
// real check and one of 1.5 fails. The bounds are literals, worked out on paper from the formulas
// of bounds.h, with u = 2^-24 and 12 serial additions, for the row
//   x = (ln 3, 0), target 1:  p = (3/4, 1/4), s = 4/3, lp = -ln 4,
//   S1 = ln 3 / 4, S2 = (ln 3)^2 / 4, H = ln s + S1, dz = (3/4, -3/4) for g = -1
// float64 logits may be read as float32: 4 u |m + ln s| = 4 u ln 4 more, of an entropy 1 + S1
// times.
#include <cmath>

#include "check_named.h"
#include "harness/verify/checks/output_checks.h"
#include "harness/verify/truth/bounds.h"
#include "one_row.h"
#include "statistics_outputs.h"

namespace lossgrid {
namespace {

constexpr double kLn4 = 1.3862943611198906;
constexpr double kEntropy = 0.5623351446188083;
// 4 (8 + S1 + ln s + ln 3 + ln 4) + 12
constexpr double kLogprobBound = 56.18896 * kRoundoff32;
// 4 (8 + S2 + (1 + S1) (S1 + ln s) + H) + 12 (1 + S1)
constexpr double kEntropyBound = 53.61925 * kRoundoff32;
// p (4 (8 + |x - m| + ln s) + 12) + 4 |p - [target]|
constexpr double kComputation0 = 36.86305;
constexpr double kComputation1 = 15.38630;
// 4 ln 4, for float64 logits
constexpr double kReading = 5.545177;
constexpr double kOnePlusS1 = 1.274653;

/// True if `value` passes as `tensor` of the row; the other outputs are the truth.
bool token_passes(const OneRow& row, const std::string& tensor, double value) {
  std::vector<float> columns[4];
  for (auto& column : columns) column.assign(2, 0.0f);
  const RowTruth& truth = row.truth.rows[0];
  columns[0][0] = static_cast<float>(truth.logprob);
  columns[1][0] = static_cast<float>(truth.entropy());
  columns[2][0] = static_cast<float>(truth.smallest);
  columns[3][0] = static_cast<float>(truth.max);
  const char* names[] = {"logprobs", "entropy", "vocab_min", "vocab_max"};
  for (int k = 0; k < 4; ++k) {
    if (tensor == names[k]) columns[k][0] = static_cast<float>(value);
  }
  const TokenOutputs got = statistics_outputs(columns);
  const Check check = check_named(
      check_tokens(row.problem, row.truth, row.places, got, {}, OneRow::kSerialAdds, 0), tensor);
  EXPECT_EQ(check.compared(), 1) << tensor;
  return check.passed();
}

TEST(SharpBounds, FitLogprobsAndEntropies) {
  for (const DType dtype : kFloatingDtypes) {
    // Rows that are not trained on have a truth as well.
    for (const bool is_trained : {true, false}) {
      const OneRow row(dtype, {kLn3, 0}, 1, is_trained);
      const std::string where = std::string(name(dtype)) + (is_trained ? "" : ", not trained on");
      const double reading = dtype == DType::f64 ? kReading * kRoundoff32 : 0;
      expect_sharp("logprobs in " + where, [&](double share) {
        return token_passes(row, "logprobs", -kLn4 + share * (kLogprobBound + reading));
      });
      expect_sharp("entropy in " + where, [&](double share) {
        return token_passes(row, "entropy",
                            kEntropy + share * (kEntropyBound + kOnePlusS1 * reading));
      });
    }
  }
}

TEST(SharpBounds, FitVocabularyExtrema) {
  // Given float32 and bf16 logits are exact; a number under the smallest normal one may vanish.
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const OneRow row(dtype, {0, 0}, 1);
    for (const char* tensor : {"vocab_min", "vocab_max"}) {
      expect_sharp(std::string(tensor) + " in " + std::string(name(dtype)),
                   [&](double share) { return token_passes(row, tensor, share * 1.17549435e-38); });
    }
  }
  // float64 logits may be rounded to float32: 1 is got for 1 + share u.
  for (const char* tensor : {"vocab_min", "vocab_max"}) {
    expect_sharp(std::string(tensor) + " in f64", [&](double share) {
      const double x = 1 + share * kRoundoff32;
      const double other = tensor == std::string("vocab_min") ? 5 : -5;
      return token_passes(OneRow(DType::f64, {x, other}, 1), tensor, 1);
    });
  }
}

/// Returns the findings about `got` as the gradient of the row.
template <typename T>
GradientFindings gradient_of(const OneRow& row, double column0, double column1) {
  const T zero(0.0f);
  const T got[4] = {T(column0), T(column1), zero, zero};
  return check_gradient(row.problem, row.truth, row.places, row.shard, got, OneRow::kSerialAdds, 0);
}

template <>
GradientFindings gradient_of<bf16>(const OneRow& row, double column0, double column1) {
  const bf16 got[4] = {bf16(static_cast<float>(column0)), bf16(static_cast<float>(column1)),
                       bf16(0.0f), bf16(0.0f)};
  return check_gradient(row.problem, row.truth, row.places, row.shard, got, OneRow::kSerialAdds, 0);
}

template <typename T>
void expect_sharp_gradient(DType dtype, double rounding) {
  const OneRow row(dtype, {kLn3, 0}, 1);
  const double reading = dtype == DType::f64 ? kReading : 0;
  const double bound0 = kRoundoff32 * (kComputation0 + 0.75 * (rounding + reading));
  const double bound1 = kRoundoff32 * (kComputation1 + 0.75 * rounding + 0.25 * reading);
  const std::string in = " in " + std::string(name(dtype));
  expect_sharp("another column" + in, [&](double share) {
    return gradient_of<T>(row, 0.75 + share * bound0, -0.75).elements.passed();
  });
  expect_sharp("the target's column" + in, [&](double share) {
    return gradient_of<T>(row, 0.75, -0.75 + share * bound1).elements.passed();
  });
  EXPECT_NEAR(gradient_of<T>(row, 0.75, -0.75).row_sum_bounds[0], bound0 + bound1, 1e-6 * bound0);
}

TEST(SharpBounds, FitGradientsOfLogits) {
  expect_sharp_gradient<float>(DType::f32, 1.01);
  expect_sharp_gradient<double>(DType::f64, 0);  // 2^-53 beside 2^-24
}

TEST(SharpBounds, FitGradientsInBf16) {
  // 3/4 is got, and the truth is as many bounds beside it: bf16 numbers are 1/256 apart there. Of a
  // column that is not the target's 1.01 |dz| / 256 + (36.86 u), of the target's with 15.39 u.
  for (const bool is_target : {false, true}) {
    expect_sharp(
        is_target ? "the target's column in bf16" : "another column in bf16", [&](double share) {
          const double bound =
              1.01 * 0.75 * kRoundoff16 + (is_target ? kComputation1 : kComputation0) * kRoundoff32;
          const double dz = 0.75 + share * bound;  // of column 0; that of column 1 is -dz
          const OneRow row(DType::bf16, {std::log(dz / (1 - dz)), 0}, 1);
          EXPECT_NEAR(row.truth.objective.grad_logprob[0].value, -1, 1e-12);
          const double right = round_to(DType::bf16, dz);
          return gradient_of<bf16>(row, is_target ? right : 0.75, is_target ? -0.75 : -right)
              .elements.passed();
        });
  }
}

TEST(SharpBounds, FitTheIntervalOfALossGradient) {
  // radius |p - [target]| of d loss / d logprob, far above all roundings.
  OneRow row(DType::f32, {kLn3, 0}, 1);
  row.truth.objective.grad_logprob[0] = Enclosure::around(-1, 0.01);
  expect_sharp("radius in another column", [&](double share) {
    return gradient_of<float>(row, 0.75 + share * 0.0075, -0.75).elements.passed();
  });
  expect_sharp("radius in the target's column", [&](double share) {
    return gradient_of<float>(row, 0.75, -0.75 + share * 0.0075).elements.passed();
  });
}

TEST(SharpBounds, FitUnderflow) {
  // p = e^-100 of column 1: any number up to twice the smallest normal float32 is right for it.
  const OneRow row(DType::f32, {100, 0}, 0);
  expect_sharp("a vanishing gradient", [&](double share) {
    return gradient_of<float>(row, 0, share * 2.3509887e-38).elements.passed();
  });
}

TEST(SharpBounds, FitTheBiasOfAGradient) {
  // 3 sum of (computation bounds x |dz|) / sum of dz^2, and half a step of float32 at most.
  const auto scaled = [&](auto zero, DType dtype) {
    const OneRow row(dtype, {kLn3, 0}, 1);
    const double reading = dtype == DType::f64 ? kReading : 0;
    const double bound = 3 * 0.75 * (kComputation0 + kComputation1 + reading) / 1.125 * kRoundoff32;
    expect_sharp("bias in " + std::string(name(dtype)), [&](double share) {
      const double dz = 0.75 * (1 + share * bound);
      return check_bias(gradient_of<decltype(zero)>(row, dz, -dz).bias, "bias").passed();
    });
  };
  scaled(0.0f, DType::f32);
  scaled(0.0, DType::f64);
  // In bf16 numbers are 1/256 apart. With an interval of 0.02 around g, columns share errors of
  // 0.015, four steps: 4/256 / 0.75 in all, and a thousandth of it by roundings.
  OneRow row(DType::bf16, {kLn3, 0}, 1);
  row.truth.objective.grad_logprob[0] = Enclosure::around(-1, 0.02);
  for (const auto& [steps, passes] : {std::pair(3, true), std::pair(6, false)}) {
    for (const double sign : {1.0, -1.0}) {
      const double dz = 0.75 + sign * steps * kRoundoff16;
      EXPECT_EQ(check_bias(gradient_of<bf16>(row, dz, -dz).bias, "bias").passed(), passes) << steps;
    }
  }
}

TEST(SharpBounds, FitLossAndMetrics) {
  // 2 within 1e-6, and one rounding of it.
  ObjectiveTruth truth;
  truth.loss = Enclosure::around(2, 1e-6);
  const auto passes = [&](Reduction reduction, double got, double loss_rounding = kRoundoff32) {
    truth.metrics["m"] = {
        reduction,
        reduction == Reduction::mean ? Enclosure::around(8, 4e-6) : Enclosure::around(2, 1e-6),
        reduction == Reduction::mean ? 4.0 : 1.0};
    const ObjectiveResult result{
        got, {{"m", {reduction, got * truth.metrics["m"].count, truth.metrics["m"].count}}}};
    const std::vector<Check> checks = check_result(truth, result, {}, 0, {.loss = loss_rounding});
    return std::pair(check_named(checks, "loss").passed(),
                     check_named(checks, "metric.m").passed());
  };
  const double bound = 1e-6 + 2 * kRoundoff32;
  expect_sharp("loss",
               [&](double share) { return passes(Reduction::sum, 2 + share * bound).first; });
  expect_sharp("loss that is rounded to bf16", [&](double share) {
    return passes(Reduction::sum, 2 + share * (1e-6 + 2 * kRoundoff16), kRoundoff16).first;
  });
  for (const Reduction reduction : {Reduction::sum, Reduction::min, Reduction::max}) {
    expect_sharp("metric " + std::string(name(reduction)),
                 [&](double share) { return passes(reduction, 2 + share * bound).second; });
  }
  // The interval of a mean is widened by its division.
  expect_sharp("metric mean", [&](double share) {
    return passes(Reduction::mean, 2 + share * (bound + 2 * kRoundoff32)).second;
  });
  for (const Reduction reduction : {Reduction::count, Reduction::global}) {
    EXPECT_TRUE(passes(reduction, 2).second) << name(reduction);
    for (const double got : {2 + 1e-9, 2 - 1e-9, 3.0, 1.0}) {
      EXPECT_FALSE(passes(reduction, got).second) << name(reduction) << got;
    }
  }
}

TEST(SharpBounds, FitTheLossOfALogprob) {
  // The loss is -lp / 1: the bound of lp, two roundings of ln 4 for the division and the result.
  const OneRow row(DType::f32, {kLn3, 0}, 1);
  const double bound = kLogprobBound + 2 * kLn4 * kRoundoff32;
  expect_sharp("loss", [&](double share) {
    ObjectiveResult result{kLn4 + share * bound, {}};
    return check_result(row.truth.objective, result, {}, 0).front().passed();
  });
}

}  // namespace
}  // namespace lossgrid
