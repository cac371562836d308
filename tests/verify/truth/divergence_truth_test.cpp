// SPDX-License-Identifier: Apache-2.0
// The divergence of a row from its teacher's: its value and gradient by hand and by differences.
#include "harness/verify/truth/divergence_truth.h"

#include <cmath>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "divergence_row.h"

namespace lossgrid {
namespace {

using namespace divergence_rows;

TEST(DivergenceTruth, MatchesThreeIdsWorkedOutByHand) {
  TrueRow({Kind::forward}, kStudent, kTeacher).expect(kLn2 / 4, {0.25, 0, -0.25});
  // R = ln 2 / 4, p (ln p / q - R).
  TrueRow({Kind::reverse}, kStudent, kTeacher)
      .expect(kLn2 / 4, {kLn2 * 3 / 8, -kLn2 / 16, -kLn2 * 5 / 16});
  // m = (7/16, 1/4, 5/16) with b = 1/4.
  const double of_teacher = std::log(4.0 / 7) / 4 + std::log(8.0 / 5) / 2;
  const double of_student = std::log(8.0 / 7) / 2 + std::log(4.0 / 5) / 4;
  TrueRow({Kind::jsd, 0.25}, kStudent, kTeacher)
      .expect(of_teacher / 4 + of_student * 3 / 4,
              {0.75 / 2 * (std::log(8.0 / 7) - of_student), -0.75 / 4 * of_student,
               0.75 / 4 * (std::log(4.0 / 5) - of_student)});
}

TEST(DivergenceTruth, MatchesASupportWorkedOutByHand) {
  const std::vector<double> top2{0, -kDivergenceInf, kLn2};  // q = (1/3, 0, 2/3)
  // On it p = (2/3, 0, 1/3).
  TrueRow({Kind::forward, 0.5, Topk::renormalized}, kStudent, top2)
      .expect(kLn2 / 3, {1.0 / 3, 0, -1.0 / 3});
  TrueRow({Kind::reverse, 0.5, Topk::renormalized}, kStudent, top2)
      .expect(kLn2 / 3, {kLn2 * 4 / 9, 0, -kLn2 * 4 / 9});
  // m = (1/2, 0, 1/2).
  const double r = std::log(4.0 / 3) * 2 / 3 + std::log(2.0 / 3) / 3;
  TrueRow({Kind::jsd, 0.5, Topk::renormalized}, kStudent, top2)
      .expect(r, {(std::log(4.0 / 3) - r) / 3, 0, (std::log(2.0 / 3) - r) / 6});
  // Over all ids p = (1/2, 1/4, 1/4).
  TrueRow({Kind::forward}, kStudent, top2)
      .expect(std::log(2.0 / 3) / 3 + std::log(8.0 / 3) * 2 / 3,
              {0.5 - 1.0 / 3, 0.25, 0.25 - 2.0 / 3});
}

TEST(DivergenceTruth, IsTheSumOfBothSidesForAMixedOne) {
  for (const double b : {0.25, 0.9}) {
    const double ends = kLn2 / 16;
    TrueRow({Kind::mixed, b}, kStudent, kTeacher)
        .expect(kLn2 / 4,
                {b / 4 + (1 - b) * 6 * ends, -(1 - b) * ends, -b / 4 - (1 - b) * 5 * ends});
  }
}

TEST(DivergenceTruth, WithZeroOutsideWorkedOutByHand) {
  const std::vector<double> top2{0, -kDivergenceInf, kLn2};  // q = (1/3, 0, 2/3)
  // ln p - ln q, with ln q = -100 outside.
  const double logs[] = {std::log(3.0 / 2), std::log(1.0 / 4) + 100, std::log(3.0 / 8)};
  const double r = logs[0] / 2 + logs[1] / 4 + logs[2] / 4;
  const double reverse[] = {(logs[0] - r) / 2, (logs[1] - r) / 4, (logs[2] - r) / 4};
  const double forward[] = {0.5 - 1.0 / 3, 0.25, 0.25 - 2.0 / 3};
  const double f = -logs[0] / 3 - logs[2] * 2 / 3;
  const TrueRow of_student({Kind::reverse, 0.5, Topk::zero_outside}, kStudent, top2);
  EXPECT_NEAR(of_student.truth.value, r, 1e-13);
  const TrueRow mixed({Kind::mixed, 0.25, Topk::zero_outside}, kStudent, top2);
  EXPECT_NEAR(mixed.truth.value, f / 4 + r * 3 / 4, 1e-13);
  for (std::size_t v = 0; v < 3; ++v) {
    EXPECT_NEAR(of_student.column(v).want, reverse[v], 1e-13);
    EXPECT_NEAR(mixed.column(v).want, forward[v] / 4 + reverse[v] * 3 / 4, 1e-13);
  }
  TrueRow({Kind::forward, 0.5, Topk::zero_outside}, kStudent, top2)
      .expect(f, {forward[0], forward[1], forward[2]});
  EXPECT_TRUE(of_student.truth.gradient_adds_up());
}

TEST(DivergenceTruth, MatchesAClampWorkedOutByHand) {
  const auto clamped = [](double least) {
    return TrueRow({Kind::forward, 0.5, Topk::clamped, least}, kStudent, kSentLogprobs);
  };
  // Nothing is below the clamp: D = (ln 1/8 - ln 1/2) / 8 + (ln 1/2 - ln 1/4) / 2, R = 5/8.
  clamped(-10).expect(kLn2 / 4, {5.0 / 16 - 1.0 / 8, 5.0 / 32, 5.0 / 32 - 1.0 / 2});
  clamped(-kDivergenceInf).expect(kLn2 / 4, {5.0 / 16 - 1.0 / 8, 5.0 / 32, 5.0 / 32 - 1.0 / 2});
  // ln q of id 0 is below it: q' = sqrt(1/32).
  const double q = std::exp(-2.5 * kLn2);
  const double r = q + 0.5;
  clamped(-2.5 * kLn2).expect(-1.5 * kLn2 * q + kLn2 / 2, {r / 2 - q, r / 4, r / 4 - 0.5});
  // So is ln p of id 2, as well as ln q of id 0: q' = exp(-1.5 ln 2).
  const double larger = std::exp(-1.5 * kLn2);
  const TrueRow both = clamped(-1.5 * kLn2);
  both.expect(-0.5 * kLn2 * larger + 0.25 * kLn2, {larger / 2 - larger, larger / 4, larger / 4});
  EXPECT_TRUE(both.truth.gradient_adds_up());
}

TEST(DivergenceTruth, IsFiniteWithAClampIfTheStudentMasksAnId) {
  const std::vector<double> student{0, 0, -kDivergenceInf};
  const TrueRow row({Kind::forward, 0.5, Topk::clamped, -10}, student, kSentLogprobs);
  // The clamp stands for ln p of id 2, which has no gradient: R = 1/8.
  row.expect(-2 * kLn2 / 8 + (10 - kLn2) / 2, {1.0 / 16 - 1.0 / 8, 1.0 / 16, 0});
}

TEST(DivergenceTruth, AClampedGradientIsThatOfDifferences) {
  const RandomStream random(23, 7);
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    std::vector<double> student(7);
    std::vector<double> teacher(7, -kDivergenceInf);
    for (std::size_t v = 0; v < 7; ++v) {
      student[v] = 2 * static_cast<double>(random.normal(v, 2 * seed));
      if (v % 2 == 0) teacher[v] = -1 - 3 * random.uniform(v, 2 * seed + 1);
    }
    for (const double least : {-2.0, -4.0, -kDivergenceInf}) {
      const Divergence divergence{Kind::forward, 0.5, Topk::clamped, least};
      const TrueRow at(divergence, student, teacher);
      double sum = 0;
      for (std::size_t v = 0; v < 7; ++v) {
        constexpr double kStep = 1e-5;
        const auto value_at = [&](double step) {
          std::vector<double> moved = student;
          moved[v] += step;
          return TrueRow(divergence, moved, teacher).truth.value;
        };
        EXPECT_NEAR(at.column(v).want, (value_at(kStep) - value_at(-kStep)) / (2 * kStep), 1e-8);
        sum += at.column(v).want;
      }
      EXPECT_NEAR(sum, 0, 1e-13);
    }
  }
}

TEST(DivergenceTruth, IsThatOfTheOthersIfBothMaskAnId) {
  const std::vector<double> student{kLn2, -kDivergenceInf, 0, 0};
  const std::vector<double> teacher{5, -kDivergenceInf, 5, 5 + kLn2};
  for (const Topk topk : {Topk::whole, Topk::renormalized}) {
    TrueRow({Kind::forward, 0.5, topk}, student, teacher).expect(kLn2 / 4, {0.25, 0, 0, -0.25});
    TrueRow({Kind::reverse, 0.5, topk}, student, teacher)
        .expect(kLn2 / 4, {kLn2 * 3 / 8, 0, -kLn2 / 16, -kLn2 * 5 / 16});
  }
}

TEST(DivergenceTruth, IsBoundedForAMixtureOfDisjointRowsAlone) {
  const std::vector<double> student{0, 0, -kDivergenceInf, -kDivergenceInf};
  const std::vector<double> teacher{-kDivergenceInf, -kDivergenceInf, 0, 1};
  for (const double b : {0.1, 0.5, 0.9}) {
    // The entropy of b; ln(p / m) is -ln(1 - b) everywhere.
    TrueRow({Kind::jsd, b}, student, teacher)
        .expect(-b * std::log(b) - (1 - b) * std::log(1 - b), {0, 0, 0, 0});
  }
  const TrueRow forward({Kind::forward}, student, teacher);
  EXPECT_EQ(forward.truth.value, kDivergenceInf);
  EXPECT_TRUE(forward.truth.has_gradient());
  EXPECT_FALSE(forward.truth.gradient_adds_up());
  const double want[] = {0.5, 0.5, 0, 0};  // -inf is no logit to change
  for (std::size_t v = 0; v < 4; ++v) {
    const DivergenceColumn column = forward.column(v, Enclosure::around(1, 1e-3));
    EXPECT_EQ(column.want, want[v]);
    EXPECT_LT(column.computation(), 1e-4);
    EXPECT_NEAR(column.objective, want[v] * 1e-3, 1e-15);
  }
  const TrueRow reverse({Kind::reverse}, student, teacher);
  EXPECT_EQ(reverse.truth.value, kDivergenceInf);
  EXPECT_FALSE(reverse.truth.has_gradient());
}

TEST(DivergenceTruth, IsMissingForARowWithoutADistribution) {
  const std::vector<double> fine{0, 1, 2};
  const auto expect_none = [](const Divergence& divergence, const std::vector<double>& student,
                              const std::vector<double>& teacher, bool has_p, bool has_q) {
    const TrueRow row(divergence, student, teacher);
    EXPECT_TRUE(std::isnan(row.truth.value));
    EXPECT_FALSE(row.truth.has_gradient());
    EXPECT_EQ(row.truth.p.is_distribution(), has_p);
    EXPECT_EQ(row.truth.q.is_distribution(), has_q);
  };
  for (const Kind kind : {Kind::forward, Kind::reverse, Kind::jsd, Kind::mixed}) {
    for (const Topk topk : {Topk::whole, Topk::renormalized}) {
      const Divergence divergence{kind, 0.5, topk};
      for (const double x : {kDivergenceNaN, kDivergenceInf}) {
        expect_none(divergence, fine, {0, x, 2}, true, false);
        expect_none(divergence, {0, x, 2}, fine, false, true);
      }
      const std::vector<double> nothing(3, -kDivergenceInf);
      expect_none(divergence, fine, nothing, topk == Topk::whole, false);
      expect_none(divergence, nothing, fine, false, true);
    }
    expect_none({kind, 0.5, Topk::renormalized}, {0, -kDivergenceInf, -kDivergenceInf},
                {-kDivergenceInf, 0, 1}, false, true);
  }
}

TEST(DivergenceTruth, TheGradientIsThatOfDifferences) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    for (const RandomRow& row : random_rows(seed, 9)) {
      if (row.kind == "vanishing" || row.kind == "far") continue;  // nothing but errors there
      for (const Divergence& divergence : all_divergences()) {
        if (!suits(divergence, row)) continue;
        SCOPED_TRACE(fmt::format("{}, {}, seed {}", row.kind, text(divergence), seed));
        const TrueRow at(divergence, row.student(), row.teacher());
        double sum = 0;
        for (std::size_t v = 0; v < 9; ++v) {
          constexpr double kStep = 1e-5;
          const auto value_at = [&](double step) {
            std::vector<double> moved = row.student();
            moved[v] += step;
            return TrueRow(divergence, moved, row.teacher()).truth.value;
          };
          const double want = (value_at(kStep) - value_at(-kStep)) / (2 * kStep);
          EXPECT_NEAR(at.column(v).want, want, 1e-8) << v;
          sum += at.column(v).want;
        }
        EXPECT_NEAR(sum, 0, 1e-13);
        EXPECT_TRUE(at.truth.gradient_adds_up());
      }
    }
  }
}

TEST(DivergenceTruth, IsThatOfAllIdsForATailOfOneId) {
  const std::vector<double> whole{-3 * kLn2, std::log(3.0 / 8), -kLn2};
  for (const Divergence& divergence : tail_divergences()) {
    const TrueRow tail(divergence, kStudent, kSentLogprobs);
    const TrueRow all({divergence.kind, divergence.beta}, kStudent, whole);
    tail.expect(all.truth.value, {all.column(0).want, all.column(1).want, all.column(2).want});
    EXPECT_TRUE(tail.truth.gradient_adds_up());
  }
}

TEST(DivergenceTruth, IsThatOfTheSumsOverTheIdsOfATail) {
  // p = (1/2, 1/8, 1/4, 1/8): the same as before, with the tail in two parts.
  const std::vector<double> student{kLn2, -kLn2, 0, -kLn2};
  const std::vector<double> teacher{-3 * kLn2, -kDivergenceInf, -kLn2, -kDivergenceInf};
  for (const Divergence& divergence : tail_divergences()) {
    const TrueRow parts(divergence, student, teacher);
    const TrueRow one(divergence, kStudent, kSentLogprobs);
    const double half = one.column(1).want / 2;
    parts.expect(one.truth.value, {one.column(0).want, half, one.column(2).want, half});
  }
}

/// Tails above, below and far below the smallest one, of both; one id of the student is -inf.
TEST(DivergenceTruth, AGradientWithATailIsThatOfDifferences) {
  const RandomStream random(24, 8);
  for (const Divergence& divergence : tail_divergences()) {
    for (std::uint32_t seed = 0; seed < 40; ++seed) {
      std::vector<double> student(7);
      std::vector<double> teacher(7, -kDivergenceInf);
      for (std::size_t v = 0; v < 7; ++v) {
        student[v] = 2 * static_cast<double>(random.normal(v, 2 * seed));
        if (v % 2 == 0) teacher[v] = -1.5 - random.uniform(v, 2 * seed + 1);
        if (v % 2 != 0 && seed % 4 == 1) student[v] -= 40;
        if (v % 2 != 0 && seed % 4 == 2) student[v] = -kDivergenceInf;
      }
      if (seed % 3 == 0) teacher[0] = std::log(1 - 1e-9);  // with the others more than 1
      const TrueRow at(divergence, student, teacher);
      EXPECT_EQ(at.truth.tail.has_gradient(), seed % 4 == 0 || seed % 4 == 3);
      double sum = 0;
      for (std::size_t v = 0; v < 7; ++v) {
        constexpr double kStep = 1e-5;
        const auto value_at = [&](double step) {
          std::vector<double> moved = student;
          moved[v] += step;
          return TrueRow(divergence, moved, teacher).truth.value;
        };
        EXPECT_NEAR(at.column(v).want, (value_at(kStep) - value_at(-kStep)) / (2 * kStep), 2e-8)
            << text(divergence) << " seed " << seed << " id " << v;
        sum += at.column(v).want;
      }
      EXPECT_NEAR(sum, 0, 1e-12);
    }
  }
}

TEST(DivergenceTruth, IsZeroForEqualRows) {
  const std::vector<double> x{0.5, -1, 3, -kDivergenceInf, 30};
  std::vector<double> shifted = x;
  for (double& logit : shifted) logit += 7;
  for (const Divergence& divergence : all_divergences()) {
    const TrueRow row(divergence, x, shifted);
    EXPECT_NEAR(row.truth.value, 0, 1e-15) << text(divergence);
    for (std::size_t v = 0; v < x.size(); ++v) EXPECT_NEAR(row.column(v).want, 0, 1e-15);
  }
}

}  // namespace
}  // namespace lossgrid
