// SPDX-License-Identifier: Apache-2.0
// The row kernels where a loss has terms beside the log-probability, or logits have transforms or a
// sampling mask, against the formulas in float64: on every instruction set of this processor and
// with the emulated kernels of GPUs, for all dtypes, all sets of terms and shards that divide
// nothing evenly.
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "harness/device/kernel/rank_threads.h"
#include "impls/kernels/rows.h"
#include "kernel_targets.h"
#include "term_rows_truth.h"
#include "term_shards.h"
#include "trial_fixture.h"

namespace lossgrid {
namespace {

using namespace term_shards;

/// Checks if the target is less probable than another id of its shard, by logits before their
/// transform, which keeps their order, or makes them equal. Where the shard has nothing but -inf,
/// either answer will do: the id with the largest logit is another shard's.
template <typename T>
void check_beaten(const ShardedRows<T>& rows, const LogitsRows& part, std::size_t r, float got) {
  const std::int32_t y = rows.targets[r];
  if (!part.shard.owns(y)) {
    EXPECT_EQ(got, 0);
    return;
  }
  const auto kept_logit = [&](std::int64_t v) {
    const auto at = static_cast<std::size_t>(v);
    return rows.truth[r].kept[at] ? rows.truth[r].x[at] : kMinusInfinity;
  };
  bool is_beaten = false;
  bool is_close = true;
  for (std::int64_t v = part.shard.begin; v < part.shard.end; ++v) {
    if (kept_logit(v) != kMinusInfinity) is_close = false;
  }
  for (std::int64_t v = part.shard.begin; v < part.shard.end; ++v) {
    const double more = kept_logit(v) - kept_logit(y);
    is_beaten |= more > 0 || (more == 0 && v < y);
    const double z = rows.truth[r].z[static_cast<std::size_t>(y)];
    const double of_z = rows.truth[r].z[static_cast<std::size_t>(v)] - z;
    const double off = (2 * rows.truth[r].of_z + 4 * kRoundoff) * std::abs(z);
    is_close |= v != y && more != 0 && std::abs(of_z) <= off;
  }
  if (!is_close) {
    EXPECT_EQ(got, is_beaten ? 1 : 0);
  }
}

template <typename T>
void check_row_statistics(const ShardedRows<T>& rows, const LogitsRows& part, std::size_t r,
                          const RowStatistics& got) {
  const TermRowTruth& whole = rows.truth[r];
  const auto begin = static_cast<std::size_t>(part.shard.begin);
  const auto end = static_cast<std::size_t>(part.shard.end);
  const TermRowTruth truth(
      {whole.x.begin() + part.shard.begin, whole.x.begin() + part.shard.end},
      {whole.kept.begin() + part.shard.begin, whole.kept.begin() + part.shard.end}, whole.transform,
      0);
  const double of_z = whole.of_z;
  const bool nothing = truth.max == kMinusInfinity;
  ASSERT_EQ(got.shift[r] == kMinusInfinity, nothing);
  const double rounding = sizeof(T) == 8 ? kRoundoff : 0;
  if (!nothing) {
    ASSERT_LE(std::abs(got.shift[r] - truth.max),
              (of_z + rounding) * std::abs(truth.max) + kLeastNormal);
  }
  if (truth.max < -1e20 && !nothing) {  // distances of masks are nothing but rounding
    EXPECT_GE(got.sum[r], 1 - 6 * kRoundoff);
    EXPECT_LE(got.sum[r], truth.finite);
    if (got.total != nullptr) {
      EXPECT_EQ(got.finite[r], truth.finite);
    }
    return;
  }
  double sum = 0;
  double of_sum = 0;
  double weighted = 0;
  double of_weighted = 0;
  double total = 0;
  double of_total = 0;
  double min = -kMinusInfinity;
  double squares = 0;
  double of_squares = 0;
  for (std::size_t v = begin; v < end; ++v) {
    if (whole.z[v] == kMinusInfinity) continue;
    const double distance = whole.z[v] - got.shift[r];
    const double off = of_z * std::abs(whole.z[v]) + kRoundoff * std::abs(distance);
    const double e = std::exp(distance);
    const double of_e = e * (off + kRoundoff * (8 + 2 * std::abs(distance)));
    squares += e * e;
    of_squares += 2 * e * of_e + kRoundoff * (kStatisticsSerialAdds + 2) * e * e;
    sum += e;
    of_sum += of_e + kRoundoff * kStatisticsSerialAdds * e;
    weighted += e * distance;
    of_weighted += e == 0 ? 0
                          : std::abs(distance) * of_e + e * off +
                                kRoundoff * (kStatisticsSerialAdds + 2) * std::abs(e * distance);
    total += distance;
    of_total += off + kRoundoff * (kStatisticsSerialAdds + 1) * std::abs(distance);
    min = std::min(min, whole.z[v]);
  }
  EXPECT_LE(std::abs(got.sum[r] - sum), of_sum);
  const bool owns = part.shard.owns(rows.targets[r]);
  const double y = owns ? whole.z[static_cast<std::size_t>(rows.targets[r])] : 0;
  if (owns && y == kMinusInfinity) {
    EXPECT_EQ(got.target[r], kMinusInfinity);
  } else {
    const double want = owns ? y - (nothing ? 0 : got.shift[r]) : 0;
    EXPECT_LE(std::abs(got.target[r] - want), of_z * std::abs(y) + kRoundoff * std::abs(want));
  }
  if (got.weighted != nullptr) {
    EXPECT_LE(std::abs(got.weighted[r] - weighted), of_weighted + 1e-35);
    if (nothing) {
      EXPECT_EQ(got.min[r], -kMinusInfinity);
    } else {
      EXPECT_LE(std::abs(got.min[r] - min), (of_z + rounding) * std::abs(min) + kLeastNormal);
    }
  }
  if (got.total == nullptr) return;
  EXPECT_LE(std::abs(got.total[r] - total), of_total);
  EXPECT_EQ(got.finite[r], truth.finite);
  if (got.squares == nullptr) return;
  EXPECT_LE(std::abs(got.squares[r] - squares), of_squares + 1e-35);
  check_beaten(rows, part, r, got.beaten[r]);
}

template <typename T>
void check_statistics(bool masked, Device* device) {
  for (const Split split : splits()) {
    for (const auto& transforms : all_transforms()) {
      const ShardedRows<T> rows(split.vocab, split.tp, transforms, masked, device);
      for (const LogitsRows& part : rows.shards) {
        for (const bool all : {false, true}) {
          for (const int more : {0, 1, 2}) {
            const bool mean = more > 0;
            const bool predictions = more > 1;
            if (transforms.empty() && !masked && !mean) continue;  // softmax_rows_test.cpp
            TermStatistics statistics;
            const RowStatistics got = statistics.of(all, mean, predictions);
            run_statistics(part, got);
            for (std::size_t r = 0; r < kRows; ++r) {
              SCOPED_TRACE(fmt::format("{} V {} of {} row {} all {} mean {} transform {} {}",
                                       name(part.dtype), split.vocab, part.shard.begin, r, all,
                                       mean, rows.truth[r].transform.factor,
                                       rows.truth[r].transform.limit));
              if (r != kNothing) {
                check_row_statistics(rows, part, r, got);
                continue;
              }
              for (std::size_t k = 0; k < statistics.columns.size(); ++k) {
                const bool is_asked = k < 3 || (k < 5 ? all : k < 7 ? mean : predictions);
                EXPECT_EQ(statistics.columns[k][r], !is_asked ? -7 : k == 1 ? 1 : 0) << k;
              }
            }
          }
        }
      }
    }
  }
}

TEST_P(TermRows, StatisticsAreThoseOfTheFormula) {
  for (const bool masked : {false, true}) {
    check_statistics<float>(masked, device());
    check_statistics<bf16>(masked, device());
    check_statistics<double>(masked, device());
  }
}

/// Returns the number of elements of row r whose gradient is not that of `by`.
template <typename T>
int wrong_elements(const ShardedRows<T>& rows, std::size_t r, const TermWeights& by,
                   const std::vector<std::vector<T>>& got, std::string* worst = nullptr) {
  int wrong = 0;
  for (std::size_t rank = 0; rank < rows.shards.size(); ++rank) {
    const VocabShard& shard = rows.shards[rank].shard;
    for (std::int64_t k = 0; k < shard.width; ++k) {
      const auto element = static_cast<double>(
          got[rank][r * static_cast<std::size_t>(shard.width) + static_cast<std::size_t>(k)]);
      const auto v = static_cast<std::size_t>(shard.begin + k);
      const auto target = static_cast<std::size_t>(rows.targets[r]);
      const bool is_zero = k >= shard.valid() || r == kNothing || r == kNoGradient;
      const double want = is_zero ? 0 : rows.truth[r].gradient(v, target, by);
      const double bound =
          is_zero ? 0
                  : rows.truth[r].gradient_bound(
                        v, target, by, sizeof(T) == 8 ? 0 : unit_roundoff(DTypeOf<T>::value));
      if (std::abs(element - want) <= bound) continue;
      if (++wrong == 1 && worst != nullptr) {
        *worst = fmt::format("column {} got {} want {} bound {} z {} max {} target {}", v, element,
                             want, bound, rows.truth[r].z[v], rows.truth[r].max, target);
      }
    }
  }
  return wrong;
}

template <typename T>
void check_gradient(bool masked, Device* device) {
  for (const Split split : splits()) {
    for (const auto& transforms : all_transforms()) {
      const ShardedRows<T> rows(split.vocab, split.tp, transforms, masked, device);
      const MergedSoftmax softmax(rows.truth);
      for (int terms = 0; terms < 8; ++terms) {
        if (terms == 0 && transforms.empty() && !masked) continue;  // softmax_rows_test.cpp
        const Weights weights(terms);
        std::vector<std::vector<T>> got;
        for (const LogitsRows& part : rows.shards) {
          got.push_back(run_gradient<T>(part, softmax.view(), weights.view(), false));
          EXPECT_EQ(got.back(), run_gradient<T>(part, softmax.view(), weights.view(), true));
        }
        for (std::size_t r = 0; r < kRows; ++r) {
          std::string worst;
          EXPECT_EQ(wrong_elements(rows, r, weights.of(r), got, &worst), 0)
              << name(DTypeOf<T>::value) << " V " << split.vocab << " row " << r << " terms "
              << terms << " factor " << rows.truth[r].transform.factor << " limit "
              << rows.truth[r].transform.limit << ": " << worst;
        }
      }
    }
  }
}

TEST_P(TermRows, GradientIsThatOfTheFormula) {
  for (const bool masked : {false, true}) {
    check_gradient<float>(masked, device());
    check_gradient<bf16>(masked, device());
    check_gradient<double>(masked, device());
  }
}

/// A target of -inf whose log-probability is a constant leaves the other terms.
template <typename T>
void check_filtered_target(Device* device) {
  constexpr std::size_t kRow = 4;
  const ShardedRows<T> rows(130, 2, {}, true, device);
  const MergedSoftmax merged(rows.truth);
  std::vector<float> target(kRows, -1.0f);
  target[kRow] = -std::numeric_limits<float>::infinity();
  for (const int terms : {0, 7}) {
    Weights weights(terms);
    weights.columns[0][kRow] = 0.5f;
    for (const bool is_constant : {false, true}) {
      RowSoftmax softmax = merged.view();
      if (is_constant) softmax.filtered = target.data();
      std::vector<std::vector<T>> got;
      for (const LogitsRows& part : rows.shards) {
        got.push_back(run_gradient<T>(part, softmax, weights.view(), false));
      }
      TermWeights by = weights.of(kRow);
      if (is_constant) by.logprob = 0;
      EXPECT_EQ(wrong_elements(rows, kRow, by, got), 0) << is_constant;
      by.logprob = 0.5 - by.logprob;
      EXPECT_GT(wrong_elements(rows, kRow, by, got), 0) << is_constant;
    }
  }
}

TEST_P(TermRows, AFilteredTargetMayHaveAConstantLogprob) {
  check_filtered_target<float>(device());
  check_filtered_target<bf16>(device());
  check_filtered_target<double>(device());
}

/// The check has power: the gradient of a loss with one weight of the other sign, or without it, is
/// not taken for the right one.
template <typename T>
void check_power(Device* device) {
  const ShardedRows<T> rows(130, 2, {}, false, device);
  const MergedSoftmax softmax(rows.truth);
  const Weights weights(7);
  std::vector<std::vector<T>> got;
  for (const LogitsRows& part : rows.shards) {
    got.push_back(run_gradient<T>(part, softmax.view(), weights.view(), false));
  }
  // In bf16 the logits of the others are nearly equal.
  const std::vector<std::size_t> some{0, 3, 7};
  for (const std::size_t r : sizeof(T) == 2 ? some : std::vector<std::size_t>{0, 1, 2, 3, 7}) {
    for (double TermWeights::*weight : {&TermWeights::logprob, &TermWeights::entropy,
                                        &TermWeights::logsumexp, &TermWeights::mean_logprob}) {
      for (const double by : {-1.0, 0.0, 1.1}) {
        TermWeights other = weights.of(r);
        other.*weight *= by;
        EXPECT_GT(wrong_elements(rows, r, other, got), 0) << r << " " << by;
      }
    }
  }
}

TEST_P(TermRows, OtherWeightsAreSeen) {
  check_power<float>(device());
  check_power<bf16>(device());
  check_power<double>(device());
}

void check_gradient_of_truth(const std::vector<RowTransform>& transforms, bool masked) {
  const ShardedRows<double> rows(24, 1, transforms, masked, nullptr);
  for (int terms = 0; terms < 8; ++terms) {
    const Weights weights(terms);
    for (const std::size_t r : {0, 1, 2, 4, 6}) {
      if (masked && r == 4) continue;  // its log-probability is -inf
      const auto target = static_cast<std::size_t>(rows.targets[r]);
      const TermWeights by{-0.5, weights.of(0).entropy, weights.of(0).logsumexp,
                           weights.of(0).mean_logprob};
      const TermRowTruth& truth = rows.truth[r];
      for (std::size_t v = 0; v < truth.x.size(); ++v) {
        constexpr double kStep = 1e-4;
        std::vector<double> up = truth.x;
        std::vector<double> down = truth.x;
        up[v] += kStep;
        down[v] -= kStep;
        const double difference =
            TermRowTruth(up, truth.kept, truth.transform, 0).loss(target, by) -
            TermRowTruth(down, truth.kept, truth.transform, 0).loss(target, by);
        EXPECT_NEAR(truth.gradient(v, target, by), difference / (2 * kStep), 2e-7)
            << r << " " << v << " " << terms;
      }
    }
  }
}

TEST(TermRowsTruth, GradientIsThatOfTheLoss) {
  for (const auto& transforms : all_transforms()) {
    for (const bool masked : {false, true}) check_gradient_of_truth(transforms, masked);
  }
}

/// From the statistics of shards, merged, to the gradient; and the same bits however many threads,
/// and past the caches.
template <typename T>
void check_bits(bool masked, Device* device) {
  for (const auto& transforms : all_transforms()) {
    const ShardedRows<T> rows(2500, 1, transforms, masked, device);
    const Weights weights(7);
    const LogitsRows& whole = rows.shards[0];
    std::vector<TermStatistics> statistics(2);
    std::vector<std::vector<T>> gradients;
    for (const int threads : {1, 2}) {
      set_rank_threads(threads);
      TermStatistics& own = statistics[static_cast<std::size_t>(threads - 1)];
      run_statistics(whole, own.of(true, true));
      const RowSoftmax softmax{own.at(0), own.at(1), own.at(3), own.at(6)};
      gradients.push_back(run_gradient<T>(whole, softmax, weights.view(), false));
      LogitsRows streamed = whole;
      streamed.past_caches = true;
      gradients.push_back(run_gradient<T>(streamed, softmax, weights.view(), false));
      // Each row on its own, as in another pack.
      std::vector<T> alone;
      for (std::int64_t r = 0; r < whole.rows; ++r) {
        const std::vector<T> row =
            run_gradient<T>(whole.slice(r, 1), softmax.from(r), weights.view().from(r), false);
        alone.insert(alone.end(), row.begin(), row.end());
      }
      gradients.push_back(alone);
    }
    EXPECT_EQ(statistics[0].columns, statistics[1].columns);
    for (const std::vector<T>& other : gradients) EXPECT_EQ(gradients[0], other);
  }
}

TEST_P(TermRows, SameBitsWhateverThePartition) {
  for (const bool masked : {false, true}) {
    check_bits<float>(masked, device());
    check_bits<bf16>(masked, device());
    check_bits<double>(masked, device());
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, TermRows, testing::ValuesIn(targets_and_emulation()),
                         target_or_emulation);

}  // namespace
}  // namespace lossgrid
