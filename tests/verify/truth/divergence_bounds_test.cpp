// SPDX-License-Identifier: Apache-2.0
// The bounds of a divergence and of its gradient: by hand, and that they separate right float32
// loops from wrong ones.
#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "divergence_emulation.h"
#include "divergence_row.h"
#include "harness/verify/truth/divergence_truth.h"

namespace lossgrid {
namespace {

using namespace divergence_rows;

TEST(DivergenceBounds, AllowEitherSideOfATailThatIsARounding) {
  const auto row = [](double log_p) {
    const double log_sum = std::log1p(-std::exp(log_p));  // of ids 0 and 2
    return TrueRow({Kind::forward, 0.5, Topk::tail}, {log_sum - kLn2, log_p, log_sum - kLn2},
                   kSentLogprobs);
  };
  const double log_least = std::log(Divergence::kSmallestTail);
  for (const double off : {1e-7, -1e-7}) {
    const DivergenceColumn near = row(log_least + off).column(1);
    EXPECT_GE(near.computation(), 3.0 / 8 * 0.999);  // q' of the id
    EXPECT_LT(near.computation(), 0.4);
  }
  EXPECT_NEAR(row(log_least + 1e-3).column(1).want, -3.0 / 8, 1e-3);
  EXPECT_LT(row(log_least + 1e-3).column(1).computation(), 1e-4);
  EXPECT_NEAR(row(log_least - 1e-3).column(1).want, 0, 1e-6);
  EXPECT_LT(row(log_least - 1e-3).column(1).computation(), 1e-5);
}

/// u32 (4 (8 + |z - m| + |ln s|) + d)
double relative_error(double distance, double log_sum, int serial_adds) {
  return kDivergenceRoundoff * (4 * (8 + distance + log_sum) + serial_adds);
}

TEST(DivergenceBounds, AllowEitherSideOfAClampThatIsARoundingAway) {
  const auto row = [](double off) {
    const double least = -kLn2 * (1 + off);  // ln p of id 0 is - ln 2
    return TrueRow({Kind::forward, 0.5, Topk::clamped, least}, kStudent, kSentLogprobs);
  };
  const auto bound = [&](double off, std::size_t v, int d) {
    return row(off).column(v, 1, d).computation();
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

TEST(DivergenceBounds, AreTheFormulasOfTheForwardDivergence) {
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
    EXPECT_NEAR(row.column(0, -2, d).computation(), element, 1e-12 * element) << d;
  }
}

TEST(DivergenceBounds, AreTheFormulasOfTheReverseDivergence) {
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
  EXPECT_NEAR(row.column(0, 3, kAdds).computation(), element, 1e-12 * element);
}

TEST(DivergenceBounds, AreTheFormulasOfTheMixture) {
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
  EXPECT_NEAR(row.column(0, 1, kAdds).computation(), element, 1e-12 * element);
}

TEST(DivergenceBounds, DoNotGrowWithIdsThatOneSideOfAMixtureMasks) {
  // Teachers mask with a finite number too: its logarithm is far off, and m is (1 - b) p.
  const TrueRow plain({Kind::jsd}, {0, 1, 2}, {0, 1, -100});
  const TrueRow buried({Kind::jsd}, {0, 1, 2}, {0, 1, -1e30});
  EXPECT_NEAR(buried.truth.value, plain.truth.value, 1e-14);
  EXPECT_NEAR(buried.truth.value_error.at(12), plain.truth.value_error.at(12), 1e-14);
  for (std::size_t v = 0; v < 3; ++v) {
    EXPECT_LT(buried.column(v).computation(), 1.001 * plain.column(v).computation()) << v;
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
      const double of_element = with.column(v).computation() - without.column(v).computation();
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

TEST(DivergenceBounds, AllowFloat64LogitsOnASupportToBeReadAsFloat32) {
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
    EXPECT_LT(element, allowed.column(1).computation() - given.column(1).computation());
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
  EXPECT_GT(reverse.column(1).computation(), std::abs(reverse.column(1).want));
  EXPECT_LT(reverse.column(1).computation(), 2.001 * kTiny * 1e38);
  // Nothing of this where all are normal.
  EXPECT_LT(TrueRow({Kind::forward}, {0, -80}, {0, -80}).truth.value_error.at(0), 1e-5);
}

TEST(DivergenceBounds, AnIntervalWithoutAnEndLeavesNoBound) {
  const TrueRow row({Kind::reverse, 0.5, Topk::renormalized}, {0, 1, 2, -2000},
                    {1, 1, -kDivergenceInf, 3});
  Enclosure gradient(1);
  gradient.high = kDivergenceInf;
  EXPECT_EQ(row.column(0, gradient).computation(), kDivergenceInf);
  EXPECT_EQ(row.column(0, gradient).objective, kDivergenceInf);
  EXPECT_EQ(row.column(2, gradient).computation(), 0);  // has no gradient
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
        column.computation() + kDivergenceRoundoff * std::abs(column.want);  // of the result
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
