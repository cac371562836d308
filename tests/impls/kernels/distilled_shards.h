// SPDX-License-Identifier: Apache-2.0
// Rows of logits and of their teachers in shards, what the kernels of divergences make of them, and
// the number of results that are not those of the truth.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "divergence_rows_truth.h"
#include "harness/core/philox.h"
#include "impls/kernels/divergence_rows.h"
#include "row_kernels.h"

namespace lossgrid {
namespace divergence_shards {

using Kind = Divergence::Kind;

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

class DivergenceRows : public RowKernels {
 protected:
  DivergenceRows() : RowKernels(1) {}
};

inline constexpr std::size_t kRows = 11;
inline constexpr std::size_t kNothing = 5;     // row without a target
inline constexpr std::size_t kNoGradient = 6;  // row whose gradient is 0
inline constexpr std::size_t kEqual = 7;       // row with the teacher's logits

struct LogitPair {
  float student;
  float teacher;
};

/// Returns the logits of a column, from numbers within [-3, 3]: each row has a difficulty of its
/// own.
inline LogitPair logits_of(std::size_t row, std::int64_t v, std::int64_t vocab, LogitPair x) {
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
inline std::vector<Transforms> all_transforms() {
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
inline void keep_top(std::int64_t k, std::vector<double>& logits) {
  if (k == 0 || k >= static_cast<std::int64_t>(logits.size())) return;
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  for (auto v = order.begin() + k; v != order.end(); ++v) logits[*v] = kMinusInfinity;
}

/// Makes logits logarithms of probabilities.
inline void normalize(std::vector<double>& logits) {
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
                               false,
                               vocab,
                               by_row(setting.transforms.student)};
      const LogitsRows teacher{DTypeOf<T>::value,
                               teachers->parts[k].data(),
                               kRows,
                               shard,
                               nullptr,
                               nullptr,
                               nullptr,
                               false,
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

inline void wait_for(const DistilledRows& rows) {
  if (rows.student.device != nullptr) rows.student.device->synchronise();
}

inline Sums run_divergence(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q) {
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

inline std::vector<Divergence> all_divergences() {
  return {{Kind::forward, 0.5}, {Kind::reverse, 0.5}, {Kind::jsd, 0.1},  {Kind::jsd, 0.5},
          {Kind::jsd, 0.9},     {Kind::mixed, 0.5},   {Kind::mixed, 0.1}};
}

inline Divergence on_support(Divergence divergence) {
  divergence.topk = Divergence::Topk::renormalized;
  return divergence;
}

inline Divergence zero_outside(Divergence divergence) {
  divergence.topk = Divergence::Topk::zero_outside;
  return divergence;
}

inline Divergence clamped(double least) {
  return {Kind::forward, 0.5, Divergence::Topk::clamped, least};
}

}  // namespace divergence_shards
}  // namespace lossgrid
