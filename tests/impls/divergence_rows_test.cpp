// SPDX-License-Identifier: Apache-2.0
// Divergences of rows from a teacher's and their gradients against the formulas in float64: on
// every instruction set of this processor and with the emulated kernels of GPUs, for all pairs of
// dtypes, kinds, supports, transforms on both sides and shards that divide nothing evenly.
#include "impls/kernels/divergence_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "divergence_rows_truth.h"
#include "harness/core/philox.h"
#include "harness/device/backend.h"
#include "harness/device/device_work.h"
#include "harness/device/emulated_device.h"
#include "harness/device/kernel/rank_threads.h"
#include "impls/reference_divergence.h"
#include "impls/teacher_rows.h"
#include "kernel_targets.h"
#include "trial_fixture.h"

namespace lossgrid {
namespace {

using Kind = Divergence::Kind;

/// Parameter for the emulated kernels of GPUs, beside the targets of Highway.
constexpr std::int64_t kEmulated = 0;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class DivergenceRows : public OnEveryTarget {
 protected:
  DivergenceRows() { set_rank_threads(1); }
  ~DivergenceRows() override { set_rank_threads(1 << 20); }

  /// Returns the device of the rows; null: the processor.
  Device* device() const { return GetParam() == kEmulated ? emulated_.get() : nullptr; }

 private:
  const std::unique_ptr<Device> emulated_ = make_emulated_device();
};

constexpr std::size_t kRows = 11;
constexpr std::size_t kNothing = 5;     // row without a target
constexpr std::size_t kNoGradient = 6;  // row whose gradient is 0
constexpr std::size_t kEqual = 7;       // row with the teacher's logits

struct LogitPair {
  float student;
  float teacher;
};

/// Returns the logits of a column, from numbers within [-3, 3]: each row has a difficulty of its
/// own.
LogitPair logits_of(std::size_t row, std::int64_t v, std::int64_t vocab, LogitPair x) {
  const bool first_half = v < vocab / 2;
  switch (row) {
    case 1:
      return {x.student + 1e4f, x.teacher};
    case 2:
      return {x.student, x.teacher + 1e4f};
    case 3:
      return {40 * x.student, x.teacher};  // most p are 0
    case 4:
      return {x.student, x.teacher + (v == vocab / 3 ? 60.0f : 0.0f)};  // one-hot
    case kNothing:
      return {std::nanf(""), std::nanf("")};
    case kEqual: {
      const auto both = static_cast<float>(bf16(x.student));
      return {both, both};
    }
    case 8:
      return first_half ? LogitPair{-kInfinity, -kInfinity} : x;
    case 9:
      return first_half ? LogitPair{-1e30f, -1e30f} : x;
    case 10:
      return {1e-4f * x.student, 1e-4f * x.teacher - 90};
    default:
      return x;
  }
}

struct Split {
  std::int64_t vocab;
  int tp;
};

struct Transforms {
  std::vector<RowTransform> student;
  std::vector<RowTransform> teacher;
};

/// None, temperatures and soft-caps on either side.
std::vector<Transforms> all_transforms() {
  const std::vector<RowTransform> hot(kRows, {1 / 0.7f, 0});
  const std::vector<RowTransform> capped(kRows, {1.5f, 2});
  std::vector<RowTransform> mixed;
  for (std::size_t r = 0; r < kRows; ++r) {
    mixed.push_back(r % 2 == 0 ? RowTransform{1.3f, 0} : RowTransform{0.7f, 4});
  }
  return {{}, {hot, capped}, {capped, {}}, {mixed, mixed}};
}

struct DistillCase {
  Split split;
  Divergence divergence;
  std::int64_t top_k;  // columns with a probability of the teacher; 0: all
  Transforms transforms;

  std::string text() const {
    return fmt::format("V {} tp {} kind {} beta {} convention {} top {} transforms {} {}",
                       split.vocab, split.tp, static_cast<int>(divergence.kind), divergence.beta,
                       static_cast<int>(divergence.topk), top_k, transforms.student.size(),
                       transforms.teacher.size());
  }
};

/// Makes all but the k largest -inf, the first ones of those that are equal.
void keep_top(std::int64_t k, std::vector<double>& logits) {
  if (k == 0 || k >= static_cast<std::int64_t>(logits.size())) return;
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  for (auto v = order.begin() + k; v != order.end(); ++v) logits[*v] = kMinusInfinity;
}

/// Makes logits logarithms of probabilities.
void normalize(std::vector<double>& logits) {
  const TermRowTruth row(logits, {}, 0);
  for (double& logit : logits) logit -= row.max + row.log_sum();
}

/// Rows of shards in the memory of the processor; padding columns are NaN.
template <typename T>
struct ShardedTensor {
  std::vector<std::vector<T>> parts;

  ShardedTensor(const std::vector<std::vector<double>>& rows, Split split) {
    for (int rank = 0; rank < split.tp; ++rank) {
      const VocabShard shard = vocab_shard(split.vocab, split.tp, rank);
      std::vector<T>& part = parts.emplace_back();
      for (const std::vector<double>& row : rows) {
        for (std::int64_t k = 0; k < shard.width; ++k) {
          part.push_back(k < shard.valid() ? element(row[static_cast<std::size_t>(shard.begin + k)])
                                           : element(std::nan("")));
        }
      }
    }
  }

  static T element(double x) {
    if constexpr (sizeof(T) == 2) return T(static_cast<float>(x));
    return static_cast<T>(x);
  }
};

/// Statistics of all shards together, rounded to float32.
struct Merged {
  std::vector<float> shift;
  std::vector<float> sum;

  void add(const TermRowTruth& row) {
    shift.push_back(static_cast<float>(row.max));
    sum.push_back(static_cast<float>(row.sum * std::exp(row.max - shift.back())));
  }
  RowSoftmax view() const { return {shift.data(), sum.data()}; }
};

template <typename S, typename T>
struct DistilledShards {
  DistilledShards(const DistillCase& c, Device* device) : setting(c) {
    const std::int64_t vocab = c.split.vocab;
    const RandomStream random(23, 5);
    std::vector<std::vector<double>> xs(kRows);
    std::vector<std::vector<double>> ys(kRows);
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::int64_t v = 0; v < vocab; ++v) {
        const auto i = 2 * (r * static_cast<std::uint64_t>(vocab) + static_cast<std::uint64_t>(v));
        const auto from = [&](std::uint64_t k) {
          return static_cast<float>(6 * random.uniform(i + k) - 3);
        };
        const LogitPair pair = logits_of(r, v, vocab, {from(0), from(1)});
        xs[r].push_back(static_cast<double>(S(pair.student)));
        ys[r].push_back(static_cast<double>(T(pair.teacher)));
      }
      if (c.divergence.takes_logprobs()) {
        normalize(ys[r]);
        for (double& y : ys[r]) y = static_cast<double>(T(static_cast<float>(y)));
      }
      if (r != kNothing) keep_top(c.top_k, ys[r]);
      add_truth(xs[r], ys[r]);
      targets.push_back(r == kNothing ? -1 : static_cast<std::int32_t>(37 * r % vocab));
      valid.push_back(1);
      gradient.push_back(r == kNothing || r == kNoGradient ? 0.0f : r % 2 == 0 ? 0.5f : -1.25f);
    }
    students = std::make_unique<ShardedTensor<S>>(xs, c.split);
    teachers = std::make_unique<ShardedTensor<T>>(ys, c.split);
    const auto by_row = [](const std::vector<RowTransform>& all) {
      return all.empty() ? nullptr : all.data();
    };
    for (int rank = 0; rank < c.split.tp; ++rank) {
      const auto k = static_cast<std::size_t>(rank);
      const VocabShard shard = vocab_shard(vocab, c.split.tp, rank);
      const LogitsRows student{DTypeOf<S>::value,
                               students->parts[k].data(),
                               kRows,
                               shard,
                               targets.data(),
                               valid.data(),
                               device,
                               kStreamBytes,
                               vocab,
                               by_row(setting.transforms.student)};
      const LogitsRows teacher{DTypeOf<T>::value,
                               teachers->parts[k].data(),
                               kRows,
                               shard,
                               nullptr,
                               nullptr,
                               nullptr,
                               kStreamBytes,
                               vocab,
                               by_row(setting.transforms.teacher)};
      shards.push_back({student, teacher, c.divergence});
    }
  }
  DistilledShards(const DistilledShards&) = delete;
  DistilledShards& operator=(const DistilledShards&) = delete;

  DistillCase setting;
  std::vector<DivergedRowTruth> truth;
  std::vector<std::int32_t> targets;
  std::vector<std::uint8_t> valid;
  std::vector<float> gradient;
  Merged p;
  Merged q;
  std::vector<float> of_student;  // R
  std::unique_ptr<ShardedTensor<S>> students;
  std::unique_ptr<ShardedTensor<T>> teachers;
  std::vector<DistilledRows> shards;

 private:
  void add_truth(const std::vector<double>& x, const std::vector<double>& y) {
    const std::size_t r = truth.size();
    const auto of_row = [r](const std::vector<RowTransform>& all) {
      return all.empty() ? RowTransform{} : all[r];
    };
    std::vector<double> supported = x;
    for (std::size_t v = 0; v < y.size(); ++v) {
      if (setting.divergence.on_support() && y[v] == kMinusInfinity) supported[v] = y[v];
    }
    TermRowTruth teacher(y, of_row(setting.transforms.teacher),
                         sizeof(T) == 8 ? 0x1p-53 : kRoundoff);
    if (setting.divergence.takes_logprobs()) {
      teacher.max = 0;
      teacher.sum = 1;
    }
    truth.push_back({setting.divergence,
                     TermRowTruth(supported, of_row(setting.transforms.student),
                                  sizeof(S) == 8 ? 0x1p-53 : kRoundoff),
                     teacher});
    p.add(truth.back().student);
    q.add(truth.back().teacher);
    of_student.push_back(static_cast<float>(truth.back().sum_of_student()));
  }
};

struct Sums {
  std::vector<float> of_teacher = std::vector<float>(kRows, -7.0f);
  std::vector<float> of_student = std::vector<float>(kRows, -7.0f);

  DivergenceSums view() { return {of_teacher.data(), of_student.data()}; }
  friend bool operator==(const Sums&, const Sums&) = default;
};

void wait_for(const DistilledRows& rows) {
  if (rows.student.device != nullptr) rows.student.device->synchronise();
}

Sums run_divergence(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q) {
  Sums sums;
  rows_divergence(rows, p, q, sums.view());
  wait_for(rows);
  return sums;
}

template <typename S>
std::vector<S> run_gradient(DistilledRows rows, const RowSoftmax& p, const RowSoftmax& q,
                            const float* of_student, const float* gradient, bool in_place) {
  const auto size = static_cast<std::size_t>(rows.student.rows * rows.student.shard.width);
  const S* logits = static_cast<const S*>(rows.student.data);
  std::vector<S> copy(logits, logits + size);
  std::vector<S> out(in_place ? 0 : size, S(99.0f));
  rows.student.data = copy.data();
  S* to = in_place ? copy.data() : out.data();
  rows_divergence_gradient(rows, p, q, of_student, gradient, to);
  wait_for(rows);
  return std::vector<S>(to, to + size);
}

template <typename S>
using ShardGradients = std::vector<std::vector<S>>;

/// Returns the number of sums of row r that are not those of `truth`.
template <typename S, typename T>
int wrong_sums(const DistilledShards<S, T>& rows, const DivergedRowTruth& truth, std::size_t r,
               const std::vector<Sums>& got, std::string* worst = nullptr) {
  int wrong = 0;
  Bounded whole;
  double merged = 0;
  const auto check = [&](float sum, const Bounded& want, const std::string& which) {
    if (std::abs(sum - want.value) <= want.bound) return;
    if (++wrong == 1 && worst != nullptr) {
      *worst = fmt::format("{} got {} want {} bound {}", which, sum, want.value, want.bound);
    }
  };
  for (std::size_t rank = 0; rank < rows.shards.size(); ++rank) {
    Bounded of_teacher;
    Bounded of_student;
    const VocabShard& shard = rows.shards[rank].student.shard;
    const auto add = [](const Bounded& summand, Bounded& sum) {
      sum += summand;
      sum.bound +=
          kRoundoff * (kStatisticsSerialAdds + 1) * (std::abs(summand.value) + summand.bound);
    };
    for (std::int64_t v = shard.begin; v < shard.end && r != kNothing; ++v) {
      add(truth.bounded_of_teacher(static_cast<std::size_t>(v)), of_teacher);
      add(truth.bounded_of_student(static_cast<std::size_t>(v)), of_student);
    }
    check(got[rank].of_teacher[r], of_teacher, fmt::format("teacher's of shard {}", rank));
    check(got[rank].of_student[r], of_student, fmt::format("student's of shard {}", rank));
    whole.bound += truth.merged(of_teacher.bound, of_student.bound);
    merged += truth.merged(got[rank].of_teacher[r], got[rank].of_student[r]);
  }
  if (r == kNothing) return wrong;
  whole.value = truth.value();
  if (std::abs(merged - whole.value) > whole.bound + 1e-15 * std::abs(whole.value)) ++wrong;
  return wrong;
}

/// Returns the number of elements of row r whose gradient is not that of `truth`.
template <typename S, typename T>
int wrong_elements(const DistilledShards<S, T>& rows, const DivergedRowTruth& truth, std::size_t r,
                   double weight, const ShardGradients<S>& got, std::string* worst = nullptr) {
  int wrong = 0;
  const double u_out = sizeof(S) == 8 ? 0 : unit_roundoff(DTypeOf<S>::value);
  const bool is_zero = r == kNothing || r == kNoGradient;
  const double of_student = is_zero ? 0 : truth.sum_of_student();
  for (std::size_t rank = 0; rank < rows.shards.size(); ++rank) {
    const VocabShard& shard = rows.shards[rank].student.shard;
    for (std::int64_t k = 0; k < shard.width; ++k) {
      const auto element = static_cast<double>(
          got[rank][r * static_cast<std::size_t>(shard.width) + static_cast<std::size_t>(k)]);
      const auto v = static_cast<std::size_t>(shard.begin + k);
      const Bounded want =
          is_zero || k >= shard.valid() ? Bounded{} : truth.gradient(v, weight, of_student, u_out);
      if (std::abs(element - want.value) <= want.bound) continue;
      if (++wrong == 1 && worst != nullptr) {
        *worst = fmt::format("column {} got {} want {} bound {} p {} q {}", v, element, want.value,
                             want.bound, truth.p(v), truth.q(v));
      }
    }
  }
  return wrong;
}

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

std::vector<Divergence> all_divergences() {
  return {{Kind::forward, 0.5}, {Kind::reverse, 0.5}, {Kind::jsd, 0.1},  {Kind::jsd, 0.5},
          {Kind::jsd, 0.9},     {Kind::mixed, 0.5},   {Kind::mixed, 0.1}};
}

Divergence on_support(Divergence divergence) {
  divergence.topk = Divergence::Topk::renormalized;
  return divergence;
}

Divergence zero_outside(Divergence divergence) {
  divergence.topk = Divergence::Topk::zero_outside;
  return divergence;
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

Divergence clamped(double least) {
  return {Kind::forward, 0.5, Divergence::Topk::clamped, least};
}

/// verl's, whose teacher sends logarithms of probabilities.
TEST_P(DivergenceRows, ClampedOnesAreThoseOfTheFormulas) {
  for (const double least : {-3.0, -10.0, kMinusInfinity}) {
    for (const Split split : {Split{5, 4}, Split{130, 2}, Split{1100, 1}}) {
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

Divergence tail(Divergence divergence) {
  divergence.topk = Divergence::Topk::tail;
  return divergence;
}

/// Tails of all rows, made as a plan makes them.
template <typename S, typename T>
std::vector<TailRow> make_tails(const DistilledShards<S, T>& rows) {
  std::vector<TailRow> tails(kRows);
  std::vector<std::vector<float>> shifts;
  std::vector<std::vector<float>> sums;
  for (const DistilledRows& part : rows.shards) {
    rows_support_statistics(part, shifts.emplace_back(kRows).data(),
                            sums.emplace_back(kRows).data());
    wait_for(part);
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    float shift = -kInfinity;
    for (const std::vector<float>& of_shard : shifts) shift = std::max(shift, of_shard[r]);
    float sum = 0;
    for (std::size_t k = 0; k < shifts.size(); ++k) {
      if (sums[k][r] > 0) sum += sums[k][r] * std::exp(shifts[k][r] - shift);
    }
    const TermRowTruth teacher(rows.truth[r].teacher.x, {}, 0);
    auto teacher_shift = static_cast<float>(teacher.max);
    auto teacher_sum = static_cast<float>(teacher.sum);
    MakeTail{rows.setting.divergence, &rows.p.shift[r], &rows.p.sum[r], &shift, &sum,
             &teacher_shift,          &teacher_sum,     &tails[r]}(0);
    EXPECT_EQ(teacher_shift, 0);
    EXPECT_EQ(teacher_sum, 1);
  }
  return tails;
}

/// Compares with the formulas in plain float64.
template <typename S, typename T>
void check_tail(const DistillCase& c, Device* device) {
  const DistilledShards<S, T> rows(c, device);
  const std::vector<TailRow> tails = make_tails(rows);
  RowSoftmax p = rows.p.view();
  p.tail = tails.data();
  Sums merged{std::vector<float>(kRows, 0.0f), std::vector<float>(kRows, 0.0f)};
  for (const DistilledRows& part : rows.shards) {
    const Sums own = run_divergence(part, p, rows.q.view());
    for (std::size_t r = 0; r < kRows; ++r) {
      merged.of_teacher[r] += own.of_teacher[r];
      merged.of_student[r] += own.of_student[r];
    }
  }
  std::vector<float> values(kRows);
  for (std::size_t r = 0; r < kRows; ++r) {
    WriteDivergence{c.divergence, merged.of_teacher.data(), merged.of_student.data(), tails.data(),
                    values.data()}(static_cast<std::int64_t>(r));
  }
  ShardGradients<S> gradients;
  for (const DistilledRows& part : rows.shards) {
    gradients.push_back(run_gradient<S>(part, p, rows.q.view(), merged.of_student.data(),
                                        rows.gradient.data(), false));
  }
  const double u_out = sizeof(S) == 8 ? 0 : unit_roundoff(DTypeOf<S>::value);
  for (std::size_t r = 0; r < kRows; ++r) {
    if (r == kNothing) continue;
    const DivergedRowTruth& truth = rows.truth[r];
    const double value = plain_divergence(c.divergence, truth.student.x, truth.teacher.x);
    EXPECT_NEAR(values[r], value, 4e-5 * (1 + std::abs(value))) << r << " " << c.text();
    std::vector<double> want(truth.student.x.size());
    add_plain_divergence_gradient(c.divergence, truth.student.x, truth.teacher.x,
                                  static_cast<double>(rows.gradient[r]), want);
    for (std::size_t rank = 0; rank < rows.shards.size(); ++rank) {
      const VocabShard& shard = rows.shards[rank].student.shard;
      for (std::int64_t v = shard.begin; v < shard.end; ++v) {
        const std::size_t at =
            r * static_cast<std::size_t>(shard.width) + static_cast<std::size_t>(v - shard.begin);
        const double of_id = want[static_cast<std::size_t>(v)];
        EXPECT_NEAR(static_cast<double>(gradients[rank][at]), of_id,
                    4e-5 + 1.01 * u_out * std::abs(of_id))
            << "row " << r << " id " << v << " " << c.text();
      }
    }
  }
}

/// Few of the ids, half of them or all are sent; a q of the tail that is next to nothing is one of
/// bounds, which the suites have.
TEST_P(DivergenceRows, ATailIsOneMoreId) {
  for (const Divergence& divergence : all_divergences()) {
    for (const Split split : {Split{5, 4}, Split{130, 2}, Split{1100, 1}}) {
      for (const std::int64_t k :
           {std::int64_t{1}, std::int64_t{3}, split.vocab / 2, std::int64_t{0}}) {
        const DistillCase c{split, tail(divergence), k, {}};
        check_tail<float, float>(c, device());
        check_tail<bf16, float>(c, device());
        check_tail<double, double>(c, device());
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

TEST(DivergedRowTruth, GradientIsThatOfTheDivergence) {
  for (const Transforms& transforms : all_transforms()) {
    for (const Divergence& divergence : all_divergences()) {
      for (const bool is_on_support : {false, true}) {
        const DistillCase c{{24, 1},
                            is_on_support ? on_support(divergence) : divergence,
                            is_on_support ? 7 : 0,
                            transforms};
        const DistilledShards<double, double> rows(c, nullptr);
        for (const std::size_t r : {0, 2, 4, 8, 10}) {
          const DivergedRowTruth& truth = rows.truth[r];
          for (std::size_t v = 0; v < truth.student.x.size(); ++v) {
            constexpr double kStep = 1e-4;
            const auto moved = [&](double by) {
              std::vector<double> x = truth.student.x;
              x[v] += by;
              return DivergedRowTruth{truth.by, TermRowTruth(x, truth.student.transform, 0),
                                      truth.teacher}
                  .value();
            };
            const double want = (moved(kStep) - moved(-kStep)) / (2 * kStep);
            EXPECT_NEAR(truth.gradient(v, 1, truth.sum_of_student(), 0).value, want, 2e-7)
                << r << " " << v << " " << c.text();
          }
        }
      }
    }
  }
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
    check_case<float, float>(c, device());
    check_case<bf16, bf16>(c, device());
    check_case<double, bf16>(c, device());
    check_support_statistics<float, float>(c, device());
    check_support_statistics<bf16, bf16>(c, device());
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

/// One row of float32 logits.
class OneRow {
 public:
  OneRow(const std::vector<float>& student, const std::vector<float>& teacher,
         const Divergence& divergence, Device* device)
      : student_(student), teacher_(teacher) {
    const auto size = static_cast<std::int64_t>(student.size());
    rows_.student = {DType::f32,      student_.data(), 1,
                     {0, size, size}, targets_.data(), valid_.data(),
                     device,          kStreamBytes,    size};
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

TEST_P(DivergenceRows, IsInfiniteWhereTheOtherHasNoProbability) {
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

TEST_P(DivergenceRows, IsFiniteWhereAFactorIsZero) {
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
TEST_P(DivergenceRows, AClampPassesTheGradientAboveItAlone) {
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
TEST_P(DivergenceRows, LowestNumberIsNotMinusInfinity) {
  const float lowest = std::numeric_limits<float>::lowest();
  const OneRow row({0, 0, 0, 0}, {3e38f, lowest, -kInfinity, 3e38f},
                   on_support({Kind::forward, 0.5}), device());
  EXPECT_NEAR(row.support()[1], 3, 1e-6);
  EXPECT_NEAR(row.gradient()[1], 1.0 / 3, 1e-6);
  EXPECT_EQ(row.gradient()[2], 0);
}

TEST_P(DivergenceRows, NanStaysVisible) {
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

std::vector<std::int64_t> targets_and_emulation() {
  std::vector<std::int64_t> all = targets_here();
  all.push_back(kEmulated);
  return all;
}

std::string target_or_emulation(const testing::TestParamInfo<std::int64_t>& info) {
  return info.param == kEmulated ? "CudaEmulated" : target_name(info);
}

INSTANTIATE_TEST_SUITE_P(Targets, DivergenceRows, testing::ValuesIn(targets_and_emulation()),
                         target_or_emulation);

}  // namespace
}  // namespace lossgrid
