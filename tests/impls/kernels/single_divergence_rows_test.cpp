// SPDX-License-Identifier: Apache-2.0
// Divergences of single rows where a formula ends: ids without a probability, clamps, numbers that
// are none.
#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>

#include "distilled_shards.h"
#include "trial_fixture.h"

namespace lossgrid {
namespace {

using namespace divergence_shards;

class SingleDivergenceRows : public DivergenceRows {};

/// One row of float32 logits.
class OneRow {
 public:
  OneRow(const std::vector<float>& student, const std::vector<float>& teacher,
         const Divergence& divergence, Device* device)
      : student_(student), teacher_(teacher) {
    const auto size = static_cast<std::int64_t>(student.size());
    rows_.student = {DType::f32,      student_.data(), 1,
                     {0, size, size}, targets_.data(), valid_.data(),
                     device,          false,           size};
    rows_.teacher = rows_.student;
    rows_.teacher.data = teacher_.data();
    rows_.divergence = divergence;
    std::vector<double> supported;
    std::vector<double> all;
    for (std::size_t v = 0; v < student.size(); ++v) {
      const bool outside = divergence.on_support() && teacher[v] == -kInfinity;
      supported.push_back(outside ? kMinusInfinity : static_cast<double>(student[v]));
      all.push_back(static_cast<double>(teacher[v]));
    }
    p_.add(TermRowTruth(supported, {}, 0));
    TermRowTruth of_teacher(all, {}, 0);
    if (divergence.takes_logprobs()) {
      of_teacher.max = 0;
      of_teacher.sum = 1;
    }
    q_.add(of_teacher);
    sums_ = run_divergence(rows_, p_.view(), q_.view());
    gradient_ = run_gradient<float>(rows_, p_.view(), q_.view(), sums_.of_student.data(),
                                    weight_.data(), false);
  }

  float of_teacher() const { return sums_.of_teacher[0]; }
  float of_student() const { return sums_.of_student[0]; }
  const std::vector<float>& gradient() const { return gradient_; }
  std::vector<float> support() const {
    std::vector<float> statistics(2);
    rows_support_statistics(rows_, statistics.data(), statistics.data() + 1);
    wait_for(rows_);
    return statistics;
  }

 private:
  std::vector<float> student_;
  std::vector<float> teacher_;
  std::vector<std::int32_t> targets_{0};
  std::vector<std::uint8_t> valid_{1};
  std::vector<float> weight_{1};
  DistilledRows rows_;
  Merged p_;
  Merged q_;
  Sums sums_;
  std::vector<float> gradient_;
};

TEST_P(SingleDivergenceRows, IsInfiniteWhereTheOtherHasNoProbability) {
  const std::vector<float> half{-kInfinity, 1, 2, 0.5f};
  const std::vector<float> whole{1, 0.5f, -1, 0};
  const OneRow forward(half, whole, {Kind::forward, 0.5}, device());
  EXPECT_EQ(forward.of_teacher(), kInfinity);
  EXPECT_EQ(forward.of_student(), 0);
  EXPECT_EQ(forward.gradient()[0], 0);
  EXPECT_TRUE(std::isfinite(forward.gradient()[1]));
  const OneRow reverse(whole, half, {Kind::reverse, 0.5}, device());
  EXPECT_EQ(reverse.of_student(), kInfinity);
  EXPECT_EQ(reverse.of_teacher(), 0);
}

TEST_P(SingleDivergenceRows, IsFiniteWhereAFactorIsZero) {
  const std::vector<float> half{-kInfinity, 1, 2, 0.5f};
  const std::vector<float> whole{1, 0.5f, -1, 0};
  for (const Divergence& divergence : all_divergences()) {
    const OneRow both(half, half, divergence, device());
    EXPECT_EQ(both.of_teacher(), 0);
    EXPECT_EQ(both.of_student(), 0);
    EXPECT_EQ(both.gradient()[0], 0);
    const OneRow supported(whole, half, on_support(divergence), device());
    EXPECT_TRUE(std::isfinite(supported.of_teacher()));
    EXPECT_TRUE(std::isfinite(supported.of_student()));
    EXPECT_EQ(supported.gradient()[0], 0);
    EXPECT_NE(supported.gradient()[1], 0);
    if (divergence.kind == Kind::jsd) {
      const OneRow student(half, whole, divergence, device());
      EXPECT_TRUE(std::isfinite(student.of_teacher()));
      EXPECT_TRUE(std::isfinite(student.of_student()));
    }
  }
}

/// ln p = ln(1/4) of three ids, exactly the clamp, or next to it.
TEST_P(SingleDivergenceRows, AClampPassesTheGradientAboveItAlone) {
  const std::vector<float> student{0, 0, 0, 0};
  const float half = std::log(0.5f);
  const std::vector<float> teacher{half, -5, -kInfinity, -kInfinity};
  const double q = std::exp(static_cast<double>(half));
  const double low = std::exp(-2.0);
  const OneRow below(student, teacher, clamped(-2), device());  // ln p = -1.39
  EXPECT_NEAR(below.of_teacher(), q * (half + std::log(4.0)) + low * (-2 + std::log(4.0)), 1e-6);
  EXPECT_NEAR(below.of_student(), q + low, 1e-6);
  EXPECT_NEAR(below.gradient()[0], (q + low) / 4 - q, 1e-6);
  EXPECT_NEAR(below.gradient()[1], (q + low) / 4 - low, 1e-6);
  EXPECT_NEAR(below.gradient()[2], (q + low) / 4, 1e-6);
  const OneRow above(student, teacher, clamped(-1), device());
  EXPECT_NEAR(above.of_teacher(), q * (half + 1), 1e-6);
  EXPECT_EQ(above.of_student(), 0);
  EXPECT_THAT(above.gradient(), testing::Each(0.0f));
}

/// Masks of the lowest number are on the support.
TEST_P(SingleDivergenceRows, LowestNumberIsNotMinusInfinity) {
  const float lowest = std::numeric_limits<float>::lowest();
  const OneRow row({0, 0, 0, 0}, {3e38f, lowest, -kInfinity, 3e38f},
                   on_support({Kind::forward, 0.5}), device());
  EXPECT_NEAR(row.support()[1], 3, 1e-6);
  EXPECT_NEAR(row.gradient()[1], 1.0 / 3, 1e-6);
  EXPECT_EQ(row.gradient()[2], 0);
}

TEST_P(SingleDivergenceRows, NanStaysVisible) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Divergence& divergence : all_divergences()) {
    const OneRow student({0, nan, 1}, {1, 2, 3}, divergence, device());
    EXPECT_TRUE(std::isnan(student.of_teacher() + student.of_student()));
    EXPECT_TRUE(std::isnan(student.gradient()[0]));
    EXPECT_TRUE(std::isnan(student.support()[1]));
    const OneRow teacher({0, 2, 1}, {1, nan, 3}, divergence, device());
    EXPECT_TRUE(std::isnan(teacher.of_teacher() + teacher.of_student()));
    EXPECT_TRUE(std::isnan(teacher.gradient()[0]));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, SingleDivergenceRows, testing::ValuesIn(targets_and_emulation()),
                         target_or_emulation);

}  // namespace
}  // namespace lossgrid
