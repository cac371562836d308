// SPDX-License-Identifier: Apache-2.0
// Terms and transforms of single rows where a formula ends: the lowest number, targets of -inf,
// NaN, caps of logits of all sizes.
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "impls/kernels/rows.h"
#include "kernel_targets.h"
#include "term_rows_truth.h"
#include "term_shards.h"
#include "trial_fixture.h"

namespace lossgrid {
namespace {

using namespace term_shards;

class SingleTermRows : public TermRows {};

/// A mask of the lowest number stays finite below a temperature: it counts for the mean.
TEST_P(SingleTermRows, LowestNumberIsNotMinusInfinity) {
  std::vector<float> logits{1, std::numeric_limits<float>::lowest(), 0.5f, -INFINITY};
  const std::vector<std::int32_t> targets{0};
  const std::vector<std::uint8_t> valid{1};
  const std::vector<RowTransform> hot{{2, 0}};
  const std::vector<float> weight{1};
  LogitsRows rows{DType::f32,   logits.data(), 1,     {0, 4, 4}, targets.data(),
                  valid.data(), device(),      false, 4,         hot.data()};
  float shift = 0;
  float sum = 0;
  float target = 0;
  float total = 0;
  float finite = 0;
  run_statistics(rows, {&shift, &sum, &target, nullptr, nullptr, &total, &finite});
  EXPECT_EQ(finite, 3);
  EXPECT_LT(total, -3e38f);
  const std::vector<float> zero{0};
  const std::vector<float> of_entropy{-8};
  const float weighted = 0;
  RowGradients gradients{zero.data()};
  gradients.terms[RowTerm::entropy] = of_entropy.data();
  gradients.terms[RowTerm::mean_logprob] = weight.data();
  const std::vector<float> got =
      run_gradient<float>(rows, {&shift, &sum, &weighted, &finite}, gradients, false);
  EXPECT_NEAR(got[1], 2 * 0.25, 1e-6);  // p ln p is 0, though 8 ln p is infinite
  EXPECT_EQ(got[3], 0);
}

/// A target of probability 0 gets the whole weight of its log-probability, as without terms.
TEST_P(SingleTermRows, TargetOfMinusInfinityHasItsWeight) {
  const std::vector<float> logits{1, -INFINITY, 0.5f, 0};
  const std::vector<std::int32_t> targets{1};
  const std::vector<std::uint8_t> valid{1};
  const std::vector<float> weight{-0.5f};
  const LogitsRows rows{DType::f32,   logits.data(), 1,     {0, 4, 4}, targets.data(),
                        valid.data(), device(),      false, 4};
  TermStatistics statistics;
  run_statistics(rows, statistics.of(true, true));
  EXPECT_EQ(statistics.at(2)[0], -INFINITY);
  const RowSoftmax softmax{statistics.at(0), statistics.at(1), statistics.at(3), statistics.at(6)};
  RowGradients all{weight.data()};
  for (const RowTerm term : {RowTerm::entropy, RowTerm::logsumexp, RowTerm::mean_logprob}) {
    all.terms[term] = weight.data();
  }
  EXPECT_EQ(run_gradient<float>(rows, softmax, all, false)[1], -0.5f);
  EXPECT_EQ(run_gradient<float>(rows, softmax, {weight.data()}, false)[1], -0.5f);
}

TEST_P(SingleTermRows, NanStaysVisible) {
  for (const float others : {0.5f, -INFINITY}) {
    for (const std::size_t at : {0, 100, 1500, 2047}) {
      std::vector<float> logits(2048, others);
      logits[at] = std::numeric_limits<float>::quiet_NaN();
      const std::vector<std::int32_t> targets{3};
      const std::vector<std::uint8_t> valid{1};
      const LogitsRows rows{DType::f32,      logits.data(),  1,
                            {0, 2048, 2048}, targets.data(), valid.data(),
                            device(),        false,          2048};
      TermStatistics statistics;
      run_statistics(rows, statistics.of(true, true));
      EXPECT_TRUE(std::isnan(statistics.at(1)[0])) << at;
      EXPECT_TRUE(std::isnan(statistics.at(5)[0])) << at;
      const std::vector<float> ones(2048, 1.0f);
      const std::vector<float> got =
          run_gradient<float>(rows, {ones.data(), ones.data(), ones.data(), ones.data()},
                              {ones.data(), {ones.data(), ones.data(), ones.data()}}, false);
      EXPECT_TRUE(std::isnan(got[at])) << at;
    }
  }
}

/// Shifts of rows of one column are transformed logits, of all sizes.
TEST_P(SingleTermRows, CapIsAccurateAtEverySize) {
  std::vector<float> logits;
  for (int k = -1200; k < 200; ++k) {
    logits.push_back(static_cast<float>(std::exp2(k / 16.0) * (k % 2 == 0 ? 1.01 : -1.03)));
  }
  for (float x = -9; x < 9; x += kSanitized ? 0.31f : 0.0037f) logits.push_back(x);
  logits.insert(logits.end(), {0.0f, 0.625f, 0.62499994f, 3e38f, -3e38f});
  const std::vector<std::int32_t> targets(logits.size(), 0);
  const std::vector<std::uint8_t> valid(logits.size(), 1);
  const std::vector<RowTransform> caps(logits.size(), {1, 1});
  const LogitsRows rows{DType::f32, logits.data(),  static_cast<std::int64_t>(logits.size()),
                        {0, 1, 1},  targets.data(), valid.data(),
                        device(),   false,          1,
                        caps.data()};
  std::vector<float> shift(logits.size());
  std::vector<float> sum(logits.size());
  std::vector<float> target(logits.size());
  run_statistics(rows, {shift.data(), sum.data(), target.data()});
  for (std::size_t k = 0; k < logits.size(); ++k) {
    const double want = std::tanh(static_cast<double>(logits[k]));
    EXPECT_LE(std::abs(shift[k] - want), 10 * kRoundoff * std::abs(want) + kLeastNormal)
        << logits[k];
    EXPECT_NEAR(sum[k], 1, 6 * kRoundoff);
    EXPECT_EQ(target[k], 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, SingleTermRows, testing::ValuesIn(targets_and_emulation()),
                         target_or_emulation);

}  // namespace
}  // namespace lossgrid
