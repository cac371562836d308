// SPDX-License-Identifier: Apache-2.0
// The divergence of a row from its teacher's: its value and gradient by hand and by differences,
// its bounds by hand, and that they separate right float32 loops from wrong ones.
#include "harness/verify/divergence_truth.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "divergence_emulation.h"
#include "harness/core/philox.h"

namespace lossgrid {
namespace {

using Kind = Divergence::Kind;
using Topk = Divergence::Topk;

constexpr double kDivergenceRoundoff = 0x1p-24;
constexpr double kDivergenceInf = std::numeric_limits<double>::infinity();
constexpr double kDivergenceNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kTiny = std::numeric_limits<float>::min();
const double kLn2 = std::log(2.0);

/// A row in float64 with its truth. `errors`: of the student's logits, then of the teacher's.
struct TrueRow {
  std::vector<double> student;
  std::vector<double> teacher;
  std::vector<double> errors[2];
  DivergenceTruth truth;

  TrueRow(const Divergence& divergence, std::vector<double> of_student,
          std::vector<double> of_teacher, std::vector<double> student_errors = {},
          std::vector<double> teacher_errors = {}, bool allows_offset = false)
      : student(std::move(of_student)),
        teacher(std::move(of_teacher)),
        errors{std::move(student_errors), std::move(teacher_errors)} {
    for (std::vector<double>& of_logits : errors) of_logits.resize(student.size());
    truth = divergence_truth(divergence, {student, teacher, errors[0], errors[1]}, allows_offset);
  }

  DivergenceColumn column(std::size_t v, const Enclosure& gradient = 1,
                          int serial_adds = 12) const {
    return divergence_column(truth, gradient, serial_adds, student[v], teacher[v], errors[0][v],
                             errors[1][v]);
  }

  void expect(double value, const std::vector<double>& gradient) const {
    EXPECT_NEAR(truth.value, value, 1e-15);
    EXPECT_TRUE(truth.has_gradient());
    for (std::size_t v = 0; v < gradient.size(); ++v) {
      EXPECT_NEAR(column(v).want, gradient[v], 1e-15) << v;
      EXPECT_NEAR(column(v, -0.5).want, -0.5 * gradient[v], 1e-15) << v;
    }
  }
};

/// p = (1/2, 1/4, 1/4) and q = (1/4, 1/4, 1/2).
const std::vector<double> kStudent{kLn2, 0, 0};
const std::vector<double> kTeacher{5, 5, 5 + kLn2};

TEST(DivergenceTruth, OfThreeIdsWorkedOutByHand) {
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

TEST(DivergenceTruth, OfASupportWorkedOutByHand) {
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

TEST(DivergenceTruth, OfAMixedOneIsTheSumOfItsSides) {
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

/// p = (1/2, 1/4, 1/4); the teacher has sent q = (1/8, 0, 1/2), 3/8 less than all.
const std::vector<double> kSentLogprobs{-3 * kLn2, -kDivergenceInf, -kLn2};

TEST(DivergenceTruth, OfAClampedOneWorkedOutByHand) {
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

TEST(DivergenceTruth, OfAClampedOneWhoseStudentMasksAnIdIsFinite) {
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

TEST(DivergenceTruth, OfBothWithoutAProbabilityAtAnIdIsThatOfTheOthers) {
  const std::vector<double> student{kLn2, -kDivergenceInf, 0, 0};
  const std::vector<double> teacher{5, -kDivergenceInf, 5, 5 + kLn2};
  for (const Topk topk : {Topk::whole, Topk::renormalized}) {
    TrueRow({Kind::forward, 0.5, topk}, student, teacher).expect(kLn2 / 4, {0.25, 0, 0, -0.25});
    TrueRow({Kind::reverse, 0.5, topk}, student, teacher)
        .expect(kLn2 / 4, {kLn2 * 3 / 8, 0, -kLn2 / 16, -kLn2 * 5 / 16});
  }
}

TEST(DivergenceTruth, OfDisjointRowsIsBoundedForAMixtureAlone) {
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
    EXPECT_LT(column.computation, 1e-4);
    EXPECT_NEAR(column.objective, want[v] * 1e-3, 1e-15);
  }
  const TrueRow reverse({Kind::reverse}, student, teacher);
  EXPECT_EQ(reverse.truth.value, kDivergenceInf);
  EXPECT_FALSE(reverse.truth.has_gradient());
}

TEST(DivergenceTruth, OfARowWithoutADistributionIsNone) {
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

/// All kinds by all conventions that they have.
std::vector<Divergence> all_divergences() {
  std::vector<Divergence> all{{Kind::reverse, 0.5, Topk::zero_outside},
                              {Kind::mixed, 0.3, Topk::zero_outside}};
  for (const Topk topk : {Topk::whole, Topk::renormalized}) {
    all.push_back({Kind::forward, 0.5, topk});
    all.push_back({Kind::reverse, 0.5, topk});
    all.push_back({Kind::mixed, 0.3, topk});
    for (const double b : {0.1, 0.5, 0.9}) all.push_back({Kind::jsd, b, topk});
  }
  return all;
}

std::string text(const Divergence& divergence) {
  return fmt::format("kind {}, b {}, convention {}", static_cast<int>(divergence.kind),
                     divergence.beta, static_cast<int>(divergence.topk));
}

/// Makes all but the k largest -inf.
template <typename T>
void keep_largest(std::size_t k, std::vector<T>& logits) {
  std::vector<T> sorted = logits;
  std::sort(sorted.begin(), sorted.end(), std::greater<T>());
  for (T& x : logits) {
    if (x < sorted[k - 1]) x = -std::numeric_limits<T>::infinity();
  }
}

/// A row of float32 logits of one kind, and of its teacher.
struct RandomRow {
  std::string kind;
  DistilledRow logits;

  bool has_support() const { return logits.teacher != logits.all_of_teacher; }
  std::vector<double> student() const { return wide(logits.student); }
  std::vector<double> teacher() const { return wide(logits.teacher); }

 private:
  static std::vector<double> wide(const std::vector<float>& x) { return {x.begin(), x.end()}; }
};

std::vector<RandomRow> random_rows(std::uint64_t seed, std::size_t vocab) {
  const RandomStream random(seed, 0);
  const auto normal = [&](float scale, float offset, std::uint32_t column) {
    std::vector<float> x(vocab);
    for (std::size_t v = 0; v < vocab; ++v) x[v] = offset + scale * random.normal(v, column);
    return x;
  };
  std::vector<RandomRow> rows;
  const auto add = [&](const char* kind, std::vector<float> student, std::vector<float> teacher) {
    rows.push_back({kind, {std::move(student), teacher, teacher}});
  };
  add("normal", normal(1, 0, 0), normal(1, 0, 1));
  add("wide", normal(8, 0, 0), normal(8, 0, 1));
  add("far", normal(1, 1e4f, 0), normal(1, -2e3f, 1));
  add("equal", normal(1, 0, 0), normal(1, 0, 0));
  add("near", normal(1, 0, 0), normal(1, 0, 0));
  for (std::size_t v = 0; v < vocab; ++v)
    rows.back().logits.teacher[v] += 1e-4f * random.normal(v, 2);
  rows.back().logits.all_of_teacher = rows.back().logits.teacher;
  add("certain", normal(1, 0, 0), normal(1, 0, 1));
  rows.back().logits.student[1] += 30;
  add("disjoint", normal(1, 0, 0), normal(1, 0, 1));
  rows.back().logits.student[1] += 40;
  rows.back().logits.teacher[2] += 40;
  rows.back().logits.all_of_teacher = rows.back().logits.teacher;
  add("both masked", normal(2, 0, 0), normal(2, 0, 1));
  for (std::size_t v = 0; v < vocab; v += 2) {
    rows.back().logits.student[v] = rows.back().logits.teacher[v] = emulated::kMinusInfinity;
  }
  rows.back().logits.all_of_teacher = rows.back().logits.teacher;
  add("vanishing", normal(60, 0, 0), normal(60, 0, 1));
  for (const std::size_t k : {std::size_t{1}, std::size_t{3}, vocab}) {
    add("top k", normal(1, 0, 0), normal(1, 0, 1));
    keep_largest(k, rows.back().logits.teacher);
  }
  return rows;
}

/// True if a divergence has a gradient: a reverse one of all ids is infinite on a support.
bool suits(const Divergence& divergence, const RandomRow& row) {
  return divergence.topk != Topk::whole || divergence.kind == Kind::forward || !row.has_support();
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

/// All kinds, with a tail.
std::vector<Divergence> tail_divergences() {
  return {{Kind::forward, 0.5, Topk::tail},
          {Kind::reverse, 0.5, Topk::tail},
          {Kind::mixed, 0.3, Topk::tail},
          {Kind::jsd, 0.3, Topk::tail}};
}

TEST(DivergenceTruth, OfATailOfOneIdIsThatOfAllIds) {
  const std::vector<double> whole{-3 * kLn2, std::log(3.0 / 8), -kLn2};
  for (const Divergence& divergence : tail_divergences()) {
    const TrueRow tail(divergence, kStudent, kSentLogprobs);
    const TrueRow all({divergence.kind, divergence.beta}, kStudent, whole);
    tail.expect(all.truth.value, {all.column(0).want, all.column(1).want, all.column(2).want});
    EXPECT_TRUE(tail.truth.gradient_adds_up());
  }
}

TEST(DivergenceTruth, OfATailIsThatOfTheSumsOfItsIds) {
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

TEST(DivergenceBounds, OfATailTakeEitherSideWhereItIsARounding) {
  const auto row = [](double log_p) {
    const double log_sum = std::log1p(-std::exp(log_p));  // of ids 0 and 2
    return TrueRow({Kind::forward, 0.5, Topk::tail}, {log_sum - kLn2, log_p, log_sum - kLn2},
                   kSentLogprobs);
  };
  const double log_least = std::log(Divergence::kSmallestTail);
  for (const double off : {1e-7, -1e-7}) {
    const DivergenceColumn near = row(log_least + off).column(1);
    EXPECT_GE(near.computation, 3.0 / 8 * 0.999);  // q' of the id
    EXPECT_LT(near.computation, 0.4);
  }
  EXPECT_NEAR(row(log_least + 1e-3).column(1).want, -3.0 / 8, 1e-3);
  EXPECT_LT(row(log_least + 1e-3).column(1).computation, 1e-4);
  EXPECT_NEAR(row(log_least - 1e-3).column(1).want, 0, 1e-6);
  EXPECT_LT(row(log_least - 1e-3).column(1).computation, 1e-5);
}

TEST(DivergenceTruth, OfEqualRowsIsZero) {
  const std::vector<double> x{0.5, -1, 3, -kDivergenceInf, 30};
  std::vector<double> shifted = x;
  for (double& logit : shifted) logit += 7;
  for (const Divergence& divergence : all_divergences()) {
    const TrueRow row(divergence, x, shifted);
    EXPECT_NEAR(row.truth.value, 0, 1e-15) << text(divergence);
    for (std::size_t v = 0; v < x.size(); ++v) EXPECT_NEAR(row.column(v).want, 0, 1e-15);
  }
}

// --- Bounds

/// u32 (4 (8 + |z - m| + |ln s|) + d)
double relative_error(double distance, double log_sum, int serial_adds) {
  return kDivergenceRoundoff * (4 * (8 + distance + log_sum) + serial_adds);
}

TEST(DivergenceBounds, OfAClampedOneTakeEitherSideWhereItIsARounding) {
  const auto row = [](double off) {
    const double least = -kLn2 * (1 + off);  // ln p of id 0 is - ln 2
    return TrueRow({Kind::forward, 0.5, Topk::clamped, least}, kStudent, kSentLogprobs);
  };
  const auto bound = [&](double off, std::size_t v, int d) {
    return row(off).column(v, 1, d).computation;
  };
  for (const double off : {1e-8, -1e-8}) {
    // q' of id 0 is 1/2, and R moves with it.
    EXPECT_NEAR(bound(off, 0, 12), 0.5 + 0.25, 1e-5);
    EXPECT_NEAR(bound(off, 1, 12), 0.125, 1e-5);
  }
  for (const double off : {1e-3, -1e-3}) {
    EXPECT_LT(bound(off, 0, 12), 1e-5);
    EXPECT_LT(bound(off, 1, 12), 1e-5);
    EXPECT_NEAR(bound(off, 0, 100000), 0.75, 0.1);  // whose ln p is off by that much
  }
  EXPECT_LT(row(1e-8).truth.value_error.at(12), 1e-5);
}

TEST(DivergenceBounds, OfAForwardOneAreTheFormulas) {
  const TrueRow row({Kind::forward}, kStudent, kTeacher);
  for (const int d : {0, 12, 1000}) {
    // Both have m ln 2 above the others and s = 2; l = (-ln 2, 0, ln 2).
    const double at_top = relative_error(0, kLn2, d);
    const double below = relative_error(kLn2, kLn2, d);
    const double size = kLn2 / 4 + kLn2 / 2;                                            // sum q |l|
    const double bound = kLn2 / 4 * below + kLn2 / 2 * at_top +                         // of q
                         (at_top + below) / 4 + 2 * below / 4 + (at_top + below) / 2 +  // of l
                         kDivergenceRoundoff * (4 * size + d * size + kLn2);
    EXPECT_NEAR(row.truth.value_error.at(d), bound, 1e-12 * bound) << d;
    EXPECT_EQ(row.truth.of_student_error.at(d), 0);
    const double element = 2 * (at_top / 2 + below / 4 + 4 * kDivergenceRoundoff * 0.75);
    EXPECT_NEAR(row.column(0, -2, d).computation, element, 1e-12 * element) << d;
  }
}

TEST(DivergenceBounds, OfAReverseOneAreTheFormulas) {
  const TrueRow row({Kind::reverse}, kStudent, kTeacher);
  constexpr int kAdds = 12;
  const double at_top = relative_error(0, kLn2, kAdds);
  const double below = relative_error(kLn2, kLn2, kAdds);
  const double size = kLn2 / 2 + kLn2 / 4;  // sum p |l|, l = (ln 2, 0, -ln 2)
  const double of_r = kLn2 / 2 * at_top + kLn2 / 4 * below + (at_top + below) / 2 + 2 * below / 4 +
                      (at_top + below) / 4 + kDivergenceRoundoff * (4 + kAdds) * size;
  EXPECT_NEAR(row.truth.of_student_error.at(kAdds), of_r, 1e-12 * of_r);
  const double of_value = of_r + 4 * kDivergenceRoundoff * kLn2 / 4;
  EXPECT_NEAR(row.truth.value_error.at(kAdds), of_value, 1e-12 * of_value);
  const double element =
      3 * 0.5 *
      (at_top * kLn2 * 3 / 4 + at_top + below + of_r + 4 * kDivergenceRoundoff * kLn2 * 5 / 4);
  EXPECT_NEAR(row.column(0, 3, kAdds).computation, element, 1e-12 * element);
}

TEST(DivergenceBounds, OfAMixtureAreTheFormulas) {
  const TrueRow row({Kind::jsd, 0.25}, kStudent, kTeacher);
  constexpr int kAdds = 12;
  const double at_top = relative_error(0, kLn2, kAdds);
  const double below = relative_error(kLn2, kLn2, kAdds);
  const double m[] = {7.0 / 16, 0.25, 5.0 / 16};
  const double p[] = {0.5, 0.25, 0.25};
  const double q[] = {0.25, 0.25, 0.5};
  double of_value = 0;
  double of_r = 0;
  double sums[2] = {};  // b sum q ln(q / m), (1 - b) sum p ln(p / m)
  for (int v = 0; v < 3; ++v) {
    const double of_p = v == 0 ? at_top : below;
    const double of_q = v == 2 ? at_top : below;
    const double of_m = kDivergenceRoundoff * 4 * (2 - std::log(m[v]));
    const double own_p = kDivergenceRoundoff * 4 * (2 + (v == 0 ? 0 : kLn2) + kLn2);
    const double own_q = kDivergenceRoundoff * 4 * (2 + (v == 2 ? 0 : kLn2) + kLn2);
    const double q_share = q[v] / 4 / m[v];
    const double more = kDivergenceRoundoff * (4 + kAdds);
    const double l_p = std::log(p[v] / m[v]);
    const double l_q = std::log(q[v] / m[v]);
    sums[0] += q[v] / 4 * l_q;
    sums[1] += p[v] * 3 / 4 * l_p;
    of_value += q[v] / 4 * (std::abs(l_q) * (of_q + more) + own_q + of_m) +
                p[v] * 3 / 4 * (std::abs(l_p) * (of_p + more) + own_p + of_m);
    of_r += p[v] * (std::abs(l_p) * (of_p + more) + q_share * (of_p + of_q) +
                    (1 - q_share) * own_p + of_m);
  }
  of_value += kDivergenceRoundoff * 4 * (std::abs(sums[0]) + std::abs(sums[1]));
  EXPECT_NEAR(row.truth.of_student_error.at(kAdds), of_r, 1e-12 * of_r);
  EXPECT_NEAR(row.truth.value_error.at(kAdds), of_value, 1e-12 * of_value);
  const double r = sums[1] * 4 / 3;
  const double l = std::log(8.0 / 7);
  const double q_share = 1.0 / 7;
  const double element =
      0.75 / 2 *
      (at_top * (l - r) + q_share * (at_top + below) +
       (1 - q_share) * kDivergenceRoundoff * 4 * (2 + kLn2) +
       kDivergenceRoundoff * 4 * (2 - std::log(m[0])) + of_r + kDivergenceRoundoff * 4 * (l + r));
  EXPECT_NEAR(row.column(0, 1, kAdds).computation, element, 1e-12 * element);
}

TEST(DivergenceBounds, OfAMixtureDoNotGrowWithWhatOneSideBuries) {
  // Teachers mask with a finite number too: its logarithm is far off, and m is (1 - b) p.
  const TrueRow plain({Kind::jsd}, {0, 1, 2}, {0, 1, -100});
  const TrueRow buried({Kind::jsd}, {0, 1, 2}, {0, 1, -1e30});
  EXPECT_NEAR(buried.truth.value, plain.truth.value, 1e-14);
  EXPECT_NEAR(buried.truth.value_error.at(12), plain.truth.value_error.at(12), 1e-14);
  for (std::size_t v = 0; v < 3; ++v) {
    EXPECT_LT(buried.column(v).computation, 1.001 * plain.column(v).computation) << v;
  }
  EXPECT_LT(buried.truth.value_error.at(12), 1e-5);
}

/// Moves logits by their errors `e` and `f`, each way: within what the errors add to the bounds.
void expect_moves_within_bounds(const Divergence& divergence, const std::vector<double>& e,
                                const std::vector<double>& f) {
  const std::vector<double> student{0.5, -1.25, 3.0, 2.9};
  const std::vector<double> teacher{1.5, 0.25, -3.0, 2};
  const TrueRow with(divergence, student, teacher, e, f);
  const TrueRow without(divergence, student, teacher);
  const double allowed = with.truth.value_error.fixed - without.truth.value_error.fixed;
  double largest = 0;
  double largest_element = 0;
  for (unsigned signs = 0; signs < 256; ++signs) {
    std::vector<double> x = student;
    std::vector<double> y = teacher;
    for (std::size_t v = 0; v < 4; ++v) {
      x[v] += (signs >> v & 1u) != 0 ? e[v] : -e[v];
      y[v] += (signs >> (v + 4) & 1u) != 0 ? f[v] : -f[v];
    }
    const TrueRow moved(divergence, x, y);
    const double change = std::abs(moved.truth.value - with.truth.value);
    EXPECT_LE(change, 1.0001 * allowed) << text(divergence);
    largest = std::max(largest, change / allowed);
    for (std::size_t v = 0; v < 4; ++v) {
      const double of_element = with.column(v).computation - without.column(v).computation;
      const double element = std::abs(moved.column(v).want - with.column(v).want);
      EXPECT_LE(element, 1.0001 * of_element) << text(divergence);
      largest_element = std::max(largest_element, element / of_element);
    }
  }
  // Bounds of a mixed one add those of its sides, whose moves cancel in part.
  EXPECT_GT(largest, divergence.kind == Kind::mixed ? 0.05 : 0.1) << text(divergence);
  EXPECT_GT(largest_element, 0.05) << text(divergence);
}

TEST(DivergenceBounds, ErrorsOfLogitsMoveBoth) {
  const std::vector<double> e{1e-6, 3e-6, 2e-6, 1e-7};
  const std::vector<double> f{2e-6, 1e-6, 4e-6, 3e-6};
  const std::vector<double> of_one{0, 0, 2e-6, 0};
  const std::vector<double> of_another{0, 0, 0, 3e-6};
  const std::vector<double> none(4, 1e-12);
  for (const Divergence& divergence : all_divergences()) {
    expect_moves_within_bounds(divergence, e, f);
    expect_moves_within_bounds(divergence, of_one, none);
    expect_moves_within_bounds(divergence, none, of_another);
  }
}

TEST(DivergenceBounds, OfFloat64LogitsOnASupportAllowThemToBeReadAsFloat32) {
  // The largest logit of the row, 0, is not in the support.
  const std::vector<double> student{0, -1000.00003, -1000.99997};
  std::vector<double> read;
  for (const double x : student) read.push_back(static_cast<double>(static_cast<float>(x)));
  const std::vector<double> teacher{-kDivergenceInf, 0, 1};
  for (const Kind kind : {Kind::forward, Kind::reverse, Kind::jsd, Kind::mixed}) {
    const Divergence divergence{kind, 0.5, Topk::renormalized};
    const TrueRow given(divergence, student, teacher);
    const TrueRow allowed(divergence, student, teacher, {}, {}, true);
    const TrueRow rounded(divergence, read, teacher);
    const double error = std::abs(rounded.truth.value - given.truth.value);
    EXPECT_GT(error, 1e-7);
    EXPECT_LT(error, allowed.truth.value_error.fixed - given.truth.value_error.fixed);
    const double element = std::abs(rounded.column(1).want - given.column(1).want);
    EXPECT_GT(element, 1e-7);
    EXPECT_LT(element, allowed.column(1).computation - given.column(1).computation);
  }
}

TEST(DivergenceBounds, AllowProbabilitiesToVanish) {
  // q = e^-89.5, below the smallest normal float32: its summand of D is 1e38 q, or 0.
  const std::vector<double> teacher{0, -89.5};
  const std::vector<double> student{0, -1e38};
  const TrueRow row({Kind::forward}, student, teacher);
  EXPECT_GT(row.truth.value, 0.1);
  EXPECT_GT(row.truth.value_error.at(0), row.truth.value);
  EXPECT_LT(row.truth.value_error.at(0), 1.001 * kTiny * 1e38);
  // The same of the student: the gradient too.
  const TrueRow reverse({Kind::reverse}, teacher, student);
  EXPECT_GT(reverse.truth.value_error.at(0), reverse.truth.value);
  EXPECT_GT(reverse.column(1).computation, std::abs(reverse.column(1).want));
  EXPECT_LT(reverse.column(1).computation, 2 * kTiny * 1e38);
  // Nothing of this where all are normal.
  EXPECT_LT(TrueRow({Kind::forward}, {0, -80}, {0, -80}).truth.value_error.at(0), 1e-5);
}

TEST(DivergenceBounds, AnIntervalWithoutAnEndLeavesNoBound) {
  const TrueRow row({Kind::reverse, 0.5, Topk::renormalized}, {0, 1, 2, -2000},
                    {1, 1, -kDivergenceInf, 3});
  Enclosure gradient(1);
  gradient.high = kDivergenceInf;
  EXPECT_EQ(row.column(0, gradient).computation, kDivergenceInf);
  EXPECT_EQ(row.column(0, gradient).objective, kDivergenceInf);
  EXPECT_EQ(row.column(2, gradient).computation, 0);  // has no gradient
  EXPECT_EQ(row.column(2, gradient).objective, 0);
  EXPECT_EQ(row.column(3, gradient).objective, 0);  // no probability
  EXPECT_EQ(row.column(3, gradient).want, 0);
}

/// The largest errors of an emulation, in bounds.
struct Worst {
  double value = 0;
  double gradient = 0;
};

Worst worst_of(const RandomRow& row, const Divergence& divergence, DivergenceStyle style,
               DivergenceFault fault = DivergenceFault::none) {
  const TrueRow truth(divergence, row.student(), row.teacher());
  const auto adds = static_cast<int>(row.logits.student.size());
  constexpr float kGradient = 0.37f;
  const EmulatedDivergence got =
      emulate_divergence(divergence, row.logits, kGradient, style, fault);
  Worst worst;
  worst.value = std::abs(static_cast<double>(got.value) - truth.truth.value) /
                truth.truth.value_error.at(adds);
  if (std::isnan(got.value)) worst.value = kDivergenceInf;
  for (std::size_t v = 0; v < got.gradient.size(); ++v) {
    const DivergenceColumn column = truth.column(v, static_cast<double>(kGradient), adds);
    const double slack =
        column.computation + kDivergenceRoundoff * std::abs(column.want);  // of the result
    const double error = std::abs(static_cast<double>(got.gradient[v]) - column.want);
    if (error == 0) continue;
    worst.gradient = std::max(worst.gradient, std::isnan(error) ? kDivergenceInf : error / slack);
  }
  return worst;
}

TEST(DivergenceBounds, HoldForPlainLoops) {
  for (const Divergence& divergence : all_divergences()) {
    Worst largest;
    int rows = 0;
    for (const std::size_t vocab : {4u, 33u, 1000u}) {
      for (std::uint64_t seed = 1; seed <= (vocab == 4 ? 200u : vocab == 33 ? 40u : 2u); ++seed) {
        for (const RandomRow& row : random_rows(seed, vocab)) {
          if (!suits(divergence, row)) continue;
          for (const auto style : {DivergenceStyle::by_quotients, DivergenceStyle::by_logarithms}) {
            const Worst worst = worst_of(row, divergence, style);
            EXPECT_LE(worst.value, 1) << row.kind << ", " << text(divergence) << ", V " << vocab;
            EXPECT_LE(worst.gradient, 1) << row.kind << ", " << text(divergence) << ", V " << vocab;
            largest.value = std::max(largest.value, worst.value);
            largest.gradient = std::max(largest.gradient, worst.gradient);
            ++rows;
          }
        }
      }
    }
    EXPECT_GT(rows, 4000);
    EXPECT_GT(largest.value, 0.05) << text(divergence);
    EXPECT_GT(largest.gradient, 0.05) << text(divergence);
  }
}

/// Returns the largest errors of a fault in a few rows of a kind, by their place in random_rows.
Worst worst_of_fault(const Divergence& divergence, std::size_t kind, DivergenceFault fault) {
  Worst worst;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const Worst of_row =
        worst_of(random_rows(seed, 200)[kind], divergence, DivergenceStyle::by_logarithms, fault);
    worst.value = std::max(worst.value, of_row.value);
    worst.gradient = std::max(worst.gradient, of_row.gradient);
  }
  return worst;
}

TEST(DivergenceBounds, SeeEveryFault) {
  using Fault = DivergenceFault;
  const Divergence forward{Kind::forward, 0.5, Topk::renormalized};
  const Divergence reverse{Kind::reverse, 0.5, Topk::renormalized};
  const Divergence mixture{Kind::jsd, 0.3, Topk::renormalized};
  const Divergence mixed{Kind::mixed, 0.3, Topk::renormalized};
  constexpr std::size_t kNormal = 0;
  constexpr std::size_t kTop3 = 10;
  ASSERT_EQ(random_rows(5, 200)[kTop3].kind, "top k");
  for (const std::size_t kind : {kNormal, kTop3}) {
    for (const Divergence& divergence : {reverse, mixture, mixed}) {
      EXPECT_GT(worst_of_fault(divergence, kind, Fault::no_centre).gradient, 100)
          << text(divergence);
    }
    for (const Divergence& divergence : {forward, reverse, mixture, mixed}) {
      const Worst swapped = worst_of_fault(divergence, kind, Fault::swapped);
      EXPECT_GT(swapped.value, 100) << text(divergence);
      EXPECT_GT(swapped.gradient, 100) << text(divergence);
      EXPECT_GT(worst_of_fault(divergence, kind, Fault::cross_entropy).value, 100)
          << text(divergence);
      const Worst rounded = worst_of_fault(divergence, kind, Fault::rounded_log_sum);
      EXPECT_GT(std::max(rounded.value, rounded.gradient), 5) << text(divergence);
    }
    for (const Divergence& divergence : {mixture, mixed}) {
      const Worst other = worst_of_fault(divergence, kind, Fault::other_weight);
      EXPECT_GT(other.value, 100) << text(divergence);
      EXPECT_GT(other.gradient, 100) << text(divergence);
    }
  }
  for (const Divergence& divergence : {forward, reverse, mixture, mixed}) {
    const Worst student = worst_of_fault(divergence, kTop3, Fault::student_of_all_ids);
    EXPECT_GT(student.value, 100) << text(divergence);
    EXPECT_GT(student.gradient, 100) << text(divergence);
    const Worst teacher = worst_of_fault(divergence, kTop3, Fault::teacher_of_all_ids);
    EXPECT_GT(teacher.value, 100) << text(divergence);
    // A factor of q moves ln q and R alike.
    if (divergence.kind == Kind::reverse) continue;
    EXPECT_GT(teacher.gradient, 100) << text(divergence);
  }
}

TEST(DivergenceBounds, SeeATeacherWithoutTheTemperature) {
  // The truth divides the logits of both by 2, exactly.
  RandomRow row = random_rows(5, 200)[0];
  RandomRow divided = row;
  for (auto* logits : {&divided.logits.student, &divided.logits.teacher}) {
    for (float& x : *logits) x /= 2;
  }
  RandomRow wrong = divided;
  wrong.logits.teacher = row.logits.teacher;
  for (const Divergence& divergence : all_divergences()) {
    const TrueRow truth(divergence, divided.student(), divided.teacher());
    const auto error = [&](const RandomRow& emulated) {
      const EmulatedDivergence got =
          emulate_divergence(divergence, emulated.logits, 1, DivergenceStyle::by_quotients);
      return std::abs(static_cast<double>(got.value) - truth.truth.value) /
             truth.truth.value_error.at(200);
    };
    EXPECT_LE(error(divided), 1) << text(divergence);
    EXPECT_GT(error(wrong), 100) << text(divergence);
  }
}

}  // namespace
}  // namespace lossgrid
