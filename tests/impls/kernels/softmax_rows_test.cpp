// SPDX-License-Identifier: Apache-2.0
// The row kernels against the formulas in double: the vectorised ones on every instruction set of
// this processor, those of GPUs emulated, for widths around lanes and blocks, all alignments, and
// rows in which the first elements are far from the maximum.
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "harness/core/philox.h"
#include "harness/device/backend.h"
#include "harness/device/kernel/rank_threads.h"
#include "impls/kernels/cpu/memory_streams.h"
#include "impls/kernels/rows.h"
#include "kernel_targets.h"
#include "row_kernels.h"
#include "softmax_rows_kinds.h"
#include "trial_fixture.h"

namespace lossgrid {
namespace {

constexpr double kU32 = 0x1p-24;
constexpr double kSmallest = 1.1754943508222875e-38;  // normal; denormal numbers count as zero

/// True if bits are equal, or both numbers are nearer to zero than any normal number.
bool same(float got, double want) {
  return got == static_cast<float>(want) || std::abs(got - want) <= kSmallest;
}

// The kernels, waited for.

std::int64_t done_statistics(const LogitsRows& rows, const RowStatistics& out) {
  const std::int64_t owned = rows_statistics(rows, out);
  if (rows.device != nullptr) rows.device->synchronise();
  return owned;
}

void done_gradient(const LogitsRows& rows, const float* shift, const float* sum, const float* grad,
                   void* out) {
  rows_gradient(rows, {shift, sum}, {grad}, out);
  if (rows.device != nullptr) rows.device->synchronise();
}

std::int64_t done_sweep(const LogitsRows& rows, const float* grad, std::span<float> scratch,
                        const RowStatistics& out, void* gradient) {
  const std::int64_t owned = rows_forward_backward(rows, grad, scratch, out, gradient);
  if (rows.device != nullptr) rows.device->synchronise();
  return owned;
}

std::string label(Kind kind, std::int64_t vocab, DType dtype) {
  return fmt::format("kind {} vocab {} {}", static_cast<int>(kind), vocab, name(dtype));
}

class SoftmaxRows : public RowKernels {
 protected:
  SoftmaxRows() : RowKernels(2) {
    device_of_test() = device();
    reads_side_by_side() = true;
  }
  ~SoftmaxRows() override {
    device_of_test() = nullptr;
    reads_side_by_side() = by_processor_;
  }

 private:
  const bool by_processor_ = reads_side_by_side();
};

/// Every width; every fourth one under sanitizers, which are slow.
std::vector<std::int64_t> vocabularies(std::vector<std::int64_t> all) {
  if (!kSanitized) return all;
  std::vector<std::int64_t> some;
  for (std::size_t k = 0; k < all.size(); k += 4) some.push_back(all[k]);
  return some;
}

template <typename T>
void check_statistics(Kind kind, std::int64_t vocab) {
  SCOPED_TRACE(label(kind, vocab, DTypeOf<T>::value));
  constexpr std::int64_t kRows = 13;  // four with a target side by side, and some left
  Rows<T> rows(kind, vocab, kRows, vocab % 3);
  Statistics some(kRows);
  Statistics all(kRows);
  EXPECT_EQ(done_statistics(rows.view, some.some()), kRows - 1);
  EXPECT_EQ(done_statistics(rows.view, all.all()), kRows - 1);
  for (std::int64_t r = 0; r < kRows; ++r) {
    if (rows.targets[r] < 0) {
      EXPECT_EQ(some.shift[r], 0);
      EXPECT_EQ(some.sum[r], 1);
      EXPECT_EQ(some.target[r], 0);
      continue;
    }
    const ExactRow truth(rows, r);
    EXPECT_LE(some.shift[r], truth.max + kSmallest);
    EXPECT_GE(some.shift[r], truth.max - 8.5);
    EXPECT_TRUE(same(all.shift[r], truth.max)) << all.shift[r] << " " << truth.max;
    EXPECT_TRUE(same(all.min[r], truth.min)) << all.min[r] << " " << truth.min;
    for (const Statistics* s : {&some, &all}) {
      const double want = truth.sum * std::exp(truth.max - s->shift[r]);
      const double bound =
          kU32 * (8 + 4 * (truth.spread + truth.max - s->shift[r]) + kStatisticsSerialAdds);
      EXPECT_LE(std::abs(s->sum[r] - want), bound * want) << r;
      const double x_y = rows.at(r, rows.targets[r]);
      EXPECT_TRUE(same(s->target[r], x_y - s->shift[r])) << s->target[r];
    }
    const double weighted = -truth.spread * truth.sum;
    EXPECT_LE(std::abs(all.weighted[r] - weighted),
              kU32 * (40 + 8 * truth.spread) * (1 + truth.spread) * truth.sum + 1e-30);
  }
}

TEST_P(SoftmaxRows, StatisticsAreThoseOfTheFormula) {
  for (const Kind kind : kKinds) {
    for (const std::int64_t vocab :
         vocabularies({1, 2, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 3000, 4200})) {
      check_statistics<float>(kind, vocab);
      if (kind != Kind::large_offset) check_statistics<bf16>(kind, vocab);
    }
  }
}

template <typename T>
void check_gradient(Kind kind, std::int64_t vocab, bool in_place, bool sweep) {
  SCOPED_TRACE(label(kind, vocab, DTypeOf<T>::value) + (in_place ? " in place" : "") +
               (sweep ? " sweep" : ""));
  constexpr std::int64_t kRows = 13;
  Rows<T> rows(kind, vocab, kRows, vocab % 5);
  const Rows<T> before(kind, vocab, kRows, vocab % 5);
  std::vector<float> grad{-0.5f, 0.0f, 0.25f, 0.0f, -1e-3f, 3.0f, -7.0f,
                          0.5f,  1.0f, 2.0f,  0.1f, -0.2f,  0.3f};
  std::vector<T> out(static_cast<std::size_t>(kRows * vocab), T(99.0f));
  T* to = in_place ? static_cast<T*>(const_cast<void*>(rows.view.data)) : out.data();
  Statistics s(kRows);
  if (sweep) {
    std::vector<float> scratch(static_cast<std::size_t>(
        forward_backward_scratch_floats(DTypeOf<T>::value, rows.view.shard, in_place)));
    EXPECT_EQ(done_sweep(rows.view, grad.data(), scratch, s.some(), to), kRows - 1);
  } else {
    done_statistics(rows.view, s.some());
    done_gradient(rows.view, s.shift.data(), s.sum.data(), grad.data(), to);
  }
  for (std::int64_t r = 0; r < kRows; ++r) {
    const ExactRow truth(before, r);
    double total = 0;
    for (std::int64_t v = 0; v < vocab; ++v) {
      const double got = static_cast<double>(to[r * vocab + v]);
      const double distance = before.at(r, v) - truth.max;
      const double p = std::exp(distance) / truth.sum;
      const bool is_target = v == rows.targets[r];
      const double want = grad[r] * ((is_target ? 1.0 : 0.0) - p);
      const double finite = p > 0 ? -distance : 0;
      const double bound =
          1.01 * unit_roundoff(DTypeOf<T>::value) * std::abs(want) +
          kU32 * std::abs(grad[r]) * (p * (40 + 4 * (finite + truth.spread)) + 4 * is_target) +
          1.2e-38;
      ASSERT_LE(std::abs(got - want), bound) << "row " << r << " column " << v << " want " << want;
      if (grad[r] == 0) {
        ASSERT_EQ(got, 0);
      }
      total += got;
    }
    EXPECT_LE(std::abs(total), 0.01 * std::abs(grad[r]));
  }
  if (sweep && rows.targets[2] >= 0) {
    Statistics alone(kRows);
    done_statistics(before.view, alone.some());
    for (std::int64_t r = 0; r < kRows; ++r) {
      const double shifted =
          alone.sum[r] * std::exp(static_cast<double>(alone.shift[r]) - s.shift[r]);
      EXPECT_NEAR(s.sum[r], shifted, 1e-5 * shifted);
    }
  }
}

TEST_P(SoftmaxRows, GradientIsThatOfTheFormula) {
  for (const Kind kind : kKinds) {
    for (const std::int64_t vocab : vocabularies({1, 63, 64, 65, 257, 1025, 3000})) {
      for (const bool in_place : {false, true}) {
        check_gradient<float>(kind, vocab, in_place, false);
        if (kind != Kind::large_offset) check_gradient<bf16>(kind, vocab, in_place, false);
      }
    }
  }
}

TEST_P(SoftmaxRows, OneSweepIsStatisticsAndGradient) {
  for (const Kind kind : kKinds) {
    for (const std::int64_t vocab : vocabularies({1, 63, 64, 65, 257, 511, 1025, 3000, 8300})) {
      for (const bool in_place : {false, true}) {
        check_gradient<float>(kind, vocab, in_place, true);
        if (kind != Kind::large_offset) check_gradient<bf16>(kind, vocab, in_place, true);
      }
    }
  }
}

/// Rows at every distance from a line.
TEST_P(SoftmaxRows, StreamedGradientHasTheSameBits) {
  constexpr std::int64_t kVocab = 4099;
  constexpr std::int64_t kRows = 64;
  Rows<float> rows(Kind::ordinary, kVocab, kRows);
  const std::vector<float> grad(kRows, -0.125f);
  std::vector<float> streamed(static_cast<std::size_t>(kRows * kVocab));
  LogitsRows past_caches = rows.view;
  past_caches.past_caches = true;
  Statistics s(kRows);
  done_statistics(rows.view, s.some());
  done_gradient(past_caches, s.shift.data(), s.sum.data(), grad.data(), streamed.data());
  for (std::int64_t r = 0; r < kRows; ++r) {
    std::vector<float> alone(static_cast<std::size_t>(kVocab));
    done_gradient(rows.view.slice(r, 1), &s.shift[r], &s.sum[r], &grad[r], alone.data());
    for (std::int64_t v = 0; v < kVocab; ++v) {
      ASSERT_EQ(streamed[r * kVocab + v], alone[v]) << r << " " << v;
    }
  }
}

/// Returns the gradient of a sweep, written from the start of a cache line on.
template <typename T>
std::vector<T> swept_from_a_line(std::int64_t vocab, bool past_caches) {
  constexpr std::int64_t kRows = 5;
  Rows<T> rows(Kind::ordinary, vocab, kRows);
  rows.view.past_caches = past_caches;
  const auto size = static_cast<std::size_t>(kRows * vocab);
  std::vector<T> memory(size + 64);
  void* line = memory.data();
  std::size_t space = memory.size() * sizeof(T);
  const auto* out = static_cast<T*>(std::align(64, size * sizeof(T), line, space));
  const std::vector<float> grad(kRows, -0.125f);
  std::vector<float> scratch(static_cast<std::size_t>(
      forward_backward_scratch_floats(DTypeOf<T>::value, rows.view.shard, false)));
  Statistics s(kRows);
  done_sweep(rows.view, grad.data(), scratch, s.some(), line);
  return std::vector<T>(out, out + size);
}

/// Rows that do not end with a line are written through the caches.
TEST_P(SoftmaxRows, StreamedSweepHasTheSameBits) {
  for (const std::int64_t vocab : {32, 63, 64, 128, 512, 567, 1071}) {
    EXPECT_EQ(swept_from_a_line<float>(vocab, true), swept_from_a_line<float>(vocab, false))
        << vocab;
    EXPECT_EQ(swept_from_a_line<bf16>(vocab, true), swept_from_a_line<bf16>(vocab, false)) << vocab;
  }
}

/// Statistics and gradients of rows of all kinds, in bits, and the sums of a sweep.
template <typename T>
struct ResultsOfRows {
  static constexpr std::int64_t kRows = 41;
  Statistics some = Statistics(kRows);
  Statistics all = Statistics(kRows);
  Statistics swept = Statistics(kRows);
  std::vector<T> gradient;

  explicit ResultsOfRows(std::int64_t vocab) : gradient(static_cast<std::size_t>(kRows * vocab)) {
    Rows<T> rows(Kind::mixed, vocab, kRows);
    for (std::int64_t r = 0; r < kRows; r += 6) rows.targets[r] = -1;
    const std::vector<float> grad(kRows, -0.125f);
    done_statistics(rows.view, some.some());
    done_statistics(rows.view, all.all());
    done_gradient(rows.view, some.shift.data(), some.sum.data(), grad.data(), gradient.data());
    std::vector<float> scratch(static_cast<std::size_t>(
        forward_backward_scratch_floats(DTypeOf<T>::value, rows.view.shard, true)));
    done_sweep(rows.view, grad.data(), scratch, swept.some(), const_cast<void*>(rows.view.data));
  }
};

template <typename T>
void check_side_by_side(std::int64_t vocab) {
  SCOPED_TRACE(vocab);
  const ResultsOfRows<T> together(vocab);
  reads_side_by_side() = false;
  const ResultsOfRows<T> alone(vocab);
  reads_side_by_side() = true;
  EXPECT_EQ(together.some.shift, alone.some.shift);
  EXPECT_EQ(together.some.sum, alone.some.sum);
  EXPECT_EQ(together.all.sum, alone.all.sum);
  EXPECT_EQ(together.all.weighted, alone.all.weighted);
  EXPECT_EQ(together.all.min, alone.all.min);
  EXPECT_EQ(together.gradient, alone.gradient);
  for (std::size_t r = 0; r < alone.swept.sum.size(); ++r) {
    const double shifted = alone.swept.sum[r] * std::exp(static_cast<double>(alone.swept.shift[r]) -
                                                         together.swept.shift[r]);
    EXPECT_NEAR(together.swept.sum[r], shifted, 1e-5 * shifted) << r;
  }
}

/// A row alone has the bits of a row beside others. A sweep adds up blocks in another order.
TEST_P(SoftmaxRows, SameBitsSideBySide) {
  for (const std::int64_t vocab : {17, 2600, 4200, 17000}) {
    check_side_by_side<float>(vocab);
    check_side_by_side<bf16>(vocab);
  }
}

TEST_P(SoftmaxRows, SameBitsWhateverTheThreads) {
  constexpr std::int64_t kVocab = 3000;
  constexpr std::int64_t kRows = 37;
  Rows<bf16> rows(Kind::ordinary, kVocab, kRows);
  const std::vector<float> grad(kRows, -0.125f);
  std::vector<std::vector<bf16>> gradients;
  std::vector<std::vector<float>> sums;
  for (const int threads : {1, 2}) {
    set_rank_threads(threads);
    Statistics s(kRows);
    std::vector<bf16> out(static_cast<std::size_t>(kRows * kVocab));
    std::vector<float> scratch(static_cast<std::size_t>(
        forward_backward_scratch_floats(DType::bf16, rows.view.shard, false)));
    done_sweep(rows.view, grad.data(), scratch, s.some(), out.data());
    gradients.push_back(out);
    sums.push_back(s.sum);
  }
  EXPECT_EQ(gradients[0], gradients[1]);
  EXPECT_EQ(sums[0], sums[1]);
}

TEST_P(SoftmaxRows, ShardWithNothingButMinusInfinityHasNoSum) {
  Rows<float> rows(Kind::ordinary, 2000, 2);
  std::fill(rows.storage.begin(), rows.storage.end(), -kInf);
  Statistics s(2);
  done_statistics(rows.view, s.all());
  EXPECT_EQ(s.shift[0], -kInf);
  EXPECT_EQ(s.sum[0], 0);
  EXPECT_EQ(s.weighted[0], 0);
  EXPECT_EQ(s.min[0], kInf);
}

TEST_P(SoftmaxRows, NanStaysVisible) {
  for (const bool among_infinities : {false, true}) {
    for (const std::size_t at : {0, 100, 1500, 2047}) {
      Rows<float> rows(Kind::ordinary, 2048, 1);
      if (among_infinities) std::fill(rows.storage.begin(), rows.storage.end(), -kInf);
      const_cast<float*>(static_cast<const float*>(rows.view.data))[at] =
          std::numeric_limits<float>::quiet_NaN();
      for (const bool all : {false, true}) {
        Statistics s(1);
        done_statistics(rows.view, all ? s.all() : s.some());
        EXPECT_TRUE(std::isnan(s.sum[0]) || std::isnan(s.shift[0])) << at;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, SoftmaxRows, testing::ValuesIn(targets_and_emulation()),
                         target_or_emulation);

}  // namespace
}  // namespace lossgrid
