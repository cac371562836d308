// SPDX-License-Identifier: Apache-2.0
// Divergences of rows from a teacher's and their gradients against the formulas in float64: on
// every instruction set of this processor and with the emulated kernels of GPUs, for all pairs of
// dtypes, kinds, supports, transforms on both sides and shards that divide nothing evenly.
#include "impls/kernels/divergence_rows.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "distilled_shards.h"
#include "harness/device/device_work.h"
#include "harness/device/kernel/rank_threads.h"
#include "kernel_targets.h"
#include "trial_fixture.h"

namespace lossgrid {
namespace {

using namespace divergence_shards;

template <typename S, typename T>
void check_case(const DistillCase& c, Device* device) {
  const DistilledShards<S, T> rows(c, device);
  std::vector<Sums> sums;
  ShardGradients<S> gradients;
  for (const DistilledRows& part : rows.shards) {
    sums.push_back(run_divergence(part, rows.p.view(), rows.q.view()));
    gradients.push_back(run_gradient<S>(part, rows.p.view(), rows.q.view(), rows.of_student.data(),
                                        rows.gradient.data(), false));
    const std::vector<S> in_place = run_gradient<S>(
        part, rows.p.view(), rows.q.view(), rows.of_student.data(), rows.gradient.data(), true);
    EXPECT_EQ(gradients.back(), in_place) << c.text();
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    std::string worst;
    EXPECT_EQ(wrong_sums(rows, rows.truth[r], r, sums, &worst), 0)
        << name(DTypeOf<S>::value) << " " << name(DTypeOf<T>::value) << " row " << r << " "
        << c.text() << ": " << worst;
    EXPECT_EQ(wrong_elements(rows, rows.truth[r], r, rows.gradient[r], gradients, &worst), 0)
        << name(DTypeOf<S>::value) << " " << name(DTypeOf<T>::value) << " row " << r << " "
        << c.text() << ": " << worst;
  }
}

/// Calls f(element of the student, element of the teacher) for all pairs of dtypes.
template <typename F>
void for_all_dtypes(F&& f) {
  for (const DType student : {DType::f32, DType::bf16, DType::f64}) {
    for (const DType teacher : {DType::f32, DType::bf16, DType::f64}) {
      dispatch_floating(student,
                        [&](auto s) { dispatch_floating(teacher, [&](auto t) { f(s, t); }); });
    }
  }
}

/// The last shard of four of 5 columns is empty; small vocabularies have all combinations.
std::vector<DistillCase> all_cases() {
  std::vector<DistillCase> cases;
  const std::vector<Transforms> transforms = all_transforms();
  for (const Divergence& divergence : all_divergences()) {
    for (const Split split : {Split{1, 1}, Split{5, 4}, Split{130, 2}}) {
      for (const Transforms& by : transforms) {
        if (kSanitized && split.vocab == 130) continue;
        cases.push_back({split, divergence, 0, by});
        for (const std::int64_t k : {1, 3, 0}) {
          cases.push_back({split, on_support(divergence), k, by});
        }
      }
    }
    for (const Split split : {Split{64, 1}, Split{1000, 3}, Split{1100, 1}}) {
      if (kSanitized && split.vocab != 64) continue;
      cases.push_back({split, divergence, 0, transforms[0]});
      cases.push_back({split, on_support(divergence), 40, transforms[3]});
    }
  }
  for (const double beta : {1e-9, 1 - 1e-9}) {
    cases.push_back({{130, 2}, {Kind::jsd, beta}, 0, {}});
    cases.push_back({{130, 2}, on_support({Kind::jsd, beta}), 3, {}});
  }
  return cases;
}

TEST_P(DivergenceRows, SumsAndGradientAreThoseOfTheFormulas) {
  for (const DistillCase& c : all_cases()) {
    for_all_dtypes([&](auto s, auto t) { check_case<decltype(s), decltype(t)>(c, device()); });
  }
}

/// Logarithms of q = 0 that are compared with those of p.
TEST_P(DivergenceRows, ColumnsWithoutTheTeacherCountWithZeroOutside) {
  for (const Divergence& divergence : all_divergences()) {
    if (divergence.kind == Kind::jsd) continue;
    for (const Split split : {Split{5, 4}, Split{130, 2}}) {
      if (kSanitized && split.vocab == 130) continue;
      for (const Transforms& by : all_transforms()) {
        for (const std::int64_t k : {1, 3}) {
          const DistillCase c{split, zero_outside(divergence), k, by};
          for_all_dtypes(
              [&](auto s, auto t) { check_case<decltype(s), decltype(t)>(c, device()); });
        }
      }
    }
  }
}

/// verl's, whose teacher sends logarithms of probabilities.
TEST_P(DivergenceRows, ClampedOnesAreThoseOfTheFormulas) {
  for (const double least : {-3.0, -10.0, kMinusInfinity}) {
    for (const Split split : {Split{5, 4}, Split{130, 2}, Split{1100, 1}}) {
      if (kSanitized && split.vocab == 1100) continue;
      for (const std::vector<RowTransform>& by :
           {std::vector<RowTransform>(), all_transforms()[3].student}) {
        for (const std::int64_t k : {1, 3, 0}) {
          const DistillCase c{split, clamped(least), k, {by, {}}};
          for_all_dtypes(
              [&](auto s, auto t) { check_case<decltype(s), decltype(t)>(c, device()); });
        }
      }
    }
  }
}

/// A divergence to the top k that is not on the support: teacher's columns of -inf have q = 0.
TEST_P(DivergenceRows, ColumnsWithoutTheTeacherCountForTheMixture) {
  for (const Divergence& divergence : all_divergences()) {
    if (divergence.kind == Kind::reverse || divergence.kind == Kind::mixed) continue;  // infinite
    for_all_dtypes([&](auto s, auto t) {
      check_case<decltype(s), decltype(t)>({{130, 2}, divergence, 3, {}}, device());
    });
  }
}

/// The check has power: results of other formulas are not taken for the right ones.
template <typename S, typename T>
void check_power(Device* device) {
  for (const Divergence& divergence : all_divergences()) {
    const DistillCase c{{130, 2}, divergence, 0, {}};
    const DistilledShards<S, T> rows(c, device);
    const std::vector<float> nothing(kRows, 0.0f);
    std::vector<Sums> sums;
    std::vector<Sums> swapped_sums;
    ShardGradients<S> right;
    ShardGradients<S> without_r;
    ShardGradients<T> swapped;
    for (const DistilledRows& part : rows.shards) {
      const RowSoftmax p = rows.p.view();
      const RowSoftmax q = rows.q.view();
      sums.push_back(run_divergence(part, p, q));
      right.push_back(
          run_gradient<S>(part, p, q, rows.of_student.data(), rows.gradient.data(), false));
      without_r.push_back(run_gradient<S>(part, p, q, nothing.data(), rows.gradient.data(), false));
      DistilledRows other = part;
      std::swap(other.student.data, other.teacher.data);
      std::swap(other.student.dtype, other.teacher.dtype);
      swapped_sums.push_back(run_divergence(other, q, p));
      swapped.push_back(
          run_gradient<T>(other, q, p, rows.of_student.data(), rows.gradient.data(), false));
    }
    // In bf16 logits at an offset are equal.
    for (const std::size_t r : {0, 3, 4, 8}) {
      const DivergedRowTruth& truth = rows.truth[r];
      const std::string where = fmt::format("row {} {}", r, c.text());
      EXPECT_GT(wrong_elements(rows, truth, r, -rows.gradient[r], right), 0) << where;
      EXPECT_GT(wrong_elements(rows, truth, r, 1.1 * rows.gradient[r], right), 0) << where;
      if (divergence.kind != Kind::forward) {
        EXPECT_GT(wrong_elements(rows, truth, r, rows.gradient[r], without_r), 0) << where;
      }
      if constexpr (std::is_same_v<S, T>) {
        EXPECT_GT(wrong_elements(rows, truth, r, rows.gradient[r], swapped), 0) << where;
      }
      EXPECT_GT(wrong_sums(rows, truth, r, swapped_sums), 0) << where;
      for (const Divergence& other : all_divergences()) {
        if (other == divergence) continue;
        DivergedRowTruth truth_of_other = truth;
        truth_of_other.by = other;
        // The weights of a mixed one count later.
        const bool has_same_sums = divergence.kind == Kind::mixed && other.kind == Kind::mixed;
        if (!has_same_sums) {
          EXPECT_GT(wrong_sums(rows, truth_of_other, r, sums), 0) << where;
        }
        EXPECT_GT(wrong_elements(rows, truth_of_other, r, rows.gradient[r], right), 0) << where;
      }
    }
  }
}

TEST_P(DivergenceRows, OtherFormulasAreSeen) {
  for_all_dtypes([&](auto s, auto t) { check_power<decltype(s), decltype(t)>(device()); });
}

template <typename S, typename T>
void check_support_statistics(const DistillCase& c, Device* device) {
  const DistilledShards<S, T> rows(c, device);
  for (const DistilledRows& part : rows.shards) {
    std::vector<float> shift(kRows, -7.0f);
    std::vector<float> sum(kRows, -7.0f);
    rows_support_statistics(part, shift.data(), sum.data());
    wait_for(part);
    for (std::size_t r = 0; r < kRows; ++r) {
      SCOPED_TRACE(fmt::format("{} {} row {} of {} {}", name(part.student.dtype),
                               name(part.teacher.dtype), r, part.student.shard.begin, c.text()));
      if (r == kNothing) {
        EXPECT_EQ(shift[r], 0);
        EXPECT_EQ(sum[r], 1);
        continue;
      }
      const TermRowTruth& truth = rows.truth[r].student;
      double max = kMinusInfinity;
      double exact = 0;
      double bound = 0;
      for (std::int64_t k = part.student.shard.begin; k < part.student.shard.end; ++k) {
        const double z = truth.z[static_cast<std::size_t>(k)];
        if (z == kMinusInfinity) continue;
        max = std::max(max, z);
        const double distance = z - shift[r];
        const double off = truth.of_z * std::abs(z) + kRoundoff * std::abs(distance);
        const double e = std::exp(distance);
        exact += e;
        bound += e * (off + kRoundoff * (8 + 2 * std::abs(distance) + kStatisticsSerialAdds));
      }
      if (max == kMinusInfinity) {
        EXPECT_EQ(shift[r], -kInfinity);
        EXPECT_EQ(sum[r], 0);
        continue;
      }
      EXPECT_LE(std::abs(shift[r] - max), (truth.of_z + kRoundoff) * std::abs(max));
      if (max < -1e20) {  // distances of masks are nothing but rounding
        EXPECT_GE(sum[r], 1 - 6 * kRoundoff);
        continue;
      }
      EXPECT_LE(std::abs(sum[r] - exact), bound);
    }
  }
}

TEST_P(DivergenceRows, SupportStatisticsAreThoseOfTheFormula) {
  for (const DistillCase& c : all_cases()) {
    if (!c.divergence.on_support() || c.divergence.kind != Kind::forward) continue;
    for_all_dtypes(
        [&](auto s, auto t) { check_support_statistics<decltype(s), decltype(t)>(c, device()); });
  }
}

/// Rows of many blocks on the processor and of several turns of a thread on GPUs.
TEST_P(DivergenceRows, LongRows) {
  constexpr std::int64_t kColumns = 16501;
  for (const Divergence& divergence :
       {Divergence{Kind::forward, 0.5}, Divergence{Kind::jsd, 0.3}}) {
    const DistillCase c{{kColumns, 1}, on_support(divergence), kColumns / 2, {}};
    check_case<bf16, bf16>(c, device());
    check_support_statistics<bf16, bf16>(c, device());
    if (kSanitized) continue;
    check_case<float, float>(c, device());
    check_case<double, bf16>(c, device());
    check_support_statistics<float, float>(c, device());
    check_support_statistics<bf16, double>(c, device());
  }
}

/// The check has power: statistics of the whole vocabulary are far from those of the support.
TEST_P(DivergenceRows, SupportCounts) {
  const DistilledShards<float, bf16> rows({{130, 1}, on_support({Kind::forward, 0.5}), 3, {}},
                                          device());
  std::vector<float> shift(kRows);
  std::vector<float> sum(kRows);
  std::vector<float> target(kRows);
  rows_statistics(rows.shards[0].student, {shift.data(), sum.data(), target.data()});
  wait_for(rows.shards[0]);
  EXPECT_GT(sum[0] * std::exp(shift[0] - rows.p.shift[0]), 2 * rows.p.sum[0]);
}

/// The same bits however many threads, whatever the other rows.
template <typename S, typename T>
void check_bits(Device* device) {
  for (const Divergence& divergence : all_divergences()) {
    const DistilledShards<S, T> rows({{1300, 1}, divergence, 0, all_transforms()[3]}, device);
    const DistilledRows& whole = rows.shards[0];
    std::vector<Sums> sums;
    std::vector<std::vector<float>> statistics;
    std::vector<std::vector<S>> gradients;
    for (const int threads : {1, 2}) {
      set_rank_threads(threads);
      sums.push_back(run_divergence(whole, rows.p.view(), rows.q.view()));
      gradients.push_back(run_gradient<S>(whole, rows.p.view(), rows.q.view(),
                                          rows.of_student.data(), rows.gradient.data(), false));
      std::vector<float> shift(kRows);
      std::vector<float> sum(kRows);
      rows_support_statistics(whole, shift.data(), sum.data());
      wait_for(whole);
      statistics.insert(statistics.end(), {shift, sum});
    }
    Sums alone;
    std::vector<S> gradient;
    for (std::int64_t r = 0; r < whole.student.rows; ++r) {
      DistilledRows row = whole;
      row.student = whole.student.slice(r, 1);
      row.teacher.data = static_cast<const T*>(whole.teacher.data) + r * whole.teacher.shard.width;
      row.teacher.rows = 1;
      row.teacher.transforms += r;
      rows_divergence(row, rows.p.view().from(r), rows.q.view().from(r),
                      {alone.of_teacher.data() + r, alone.of_student.data() + r});
      const std::vector<S> own =
          run_gradient<S>(row, rows.p.view().from(r), rows.q.view().from(r),
                          rows.of_student.data() + r, rows.gradient.data() + r, false);
      gradient.insert(gradient.end(), own.begin(), own.end());
    }
    EXPECT_EQ(sums[0], sums[1]);
    EXPECT_EQ(sums[0], alone);
    EXPECT_EQ(gradients[0], gradients[1]);
    EXPECT_EQ(gradients[0], gradient);
    EXPECT_EQ(statistics[0], statistics[2]);
    EXPECT_EQ(statistics[1], statistics[3]);
  }
}

TEST_P(DivergenceRows, SameBitsWhateverThePartition) {
  check_bits<float, float>(device());
  check_bits<bf16, float>(device());
  check_bits<float, double>(device());
  check_bits<double, bf16>(device());
}

template <typename S, typename T>
void check_equal_rows(const Divergence& divergence, Device* device) {
  const DistillCase c{{1000, 1}, divergence, 0, {}};
  const DistilledShards<S, T> rows(c, device);
  const Sums sums = run_divergence(rows.shards[0], rows.p.view(), rows.q.view());
  EXPECT_EQ(sums.of_teacher[kEqual], 0) << c.text();
  EXPECT_EQ(sums.of_student[kEqual], 0) << c.text();
  const std::vector<S> gradient =
      run_gradient<S>(rows.shards[0], rows.p.view(), rows.q.view(), sums.of_student.data(),
                      rows.gradient.data(), false);
  for (std::size_t v = 0; v < 1000; ++v) {
    EXPECT_EQ(static_cast<double>(gradient[kEqual * 1000 + v]), 0) << c.text();
  }
}

TEST_P(DivergenceRows, EqualRowsHaveNone) {
  for (const Divergence& divergence : all_divergences()) {
    for_all_dtypes(
        [&](auto s, auto t) { check_equal_rows<decltype(s), decltype(t)>(divergence, device()); });
  }
}

/// Each tensor is read once for the sums and once for the gradient.
TEST_P(DivergenceRows, ReadsBothTensorsOnce) {
  if (device() == nullptr) return;  // traffic is counted in emulation
  const DistilledShards<bf16, float> rows({{1000, 1}, {Kind::jsd, 0.5}, 0, {}}, device());
  const auto traffic_of = [&](auto&& run) {
    device_work().rows = {};
    run();
    return device_work().rows;
  };
  const std::int64_t elements = 1000 * (kRows - 1);
  const RowTraffic of_sums =
      traffic_of([&] { run_divergence(rows.shards[0], rows.p.view(), rows.q.view()); });
  EXPECT_EQ(of_sums.read_bytes, elements * (2 + 4));
  EXPECT_EQ(of_sums.written_bytes, 0);
  const RowTraffic of_gradient = traffic_of([&] {
    run_gradient<bf16>(rows.shards[0], rows.p.view(), rows.q.view(), rows.of_student.data(),
                       rows.gradient.data(), false);
  });
  EXPECT_EQ(of_gradient.read_bytes, (elements - 1000) * (2 + 4));
  EXPECT_EQ(of_gradient.written_bytes, 1000 * static_cast<std::int64_t>(kRows) * 2);
}

INSTANTIATE_TEST_SUITE_P(Targets, DivergenceRows, testing::ValuesIn(targets_and_emulation()),
                         target_or_emulation);

}  // namespace
}  // namespace lossgrid
