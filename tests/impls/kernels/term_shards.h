// SPDX-License-Identifier: Apache-2.0
// Rows of logits with transforms and sampling masks in shards, with the truth of their terms, and
// what the row kernels make of them.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "harness/core/philox.h"
#include "impls/kernels/rows.h"
#include "row_kernels.h"
#include "term_rows_truth.h"
#include "trial_fixture.h"

namespace lossgrid {
namespace term_shards {

class TermRows : public RowKernels {
 protected:
  TermRows() : RowKernels(2) {}
};

inline constexpr std::size_t kRows = 8;
inline constexpr std::size_t kNothing = 5;     // row without a target
inline constexpr std::size_t kNoGradient = 6;  // row whose gradients are all 0

inline float unmasked(std::size_t row, float x) {
  switch (row) {
    case 1:
      return x + 1e4f;
    case 2:
      return 1e-4f * x;
    case 3:
      return 40 * x;  // most probabilities are 0
    case 4:
      return x - 90;
    default:
      return x;
  }
}

/// Returns the logit of a row: each has a difficulty of its own.
inline float logit_of(std::size_t row, std::int64_t v, std::int64_t vocab, float x) {
  const bool first_half = v < vocab / 2;
  if (row == 0 && first_half) return -std::numeric_limits<float>::infinity();
  if (row == 7 && first_half) return -1e30f;
  if (row == 4 && v >= 1024) return x - 60;  // the second block has the largest logit
  return unmasked(row, x);
}

/// True if a mask keeps a column: two of three; in row 2 the target alone, in row 3 the second
/// half. It keeps all targets but that of row 4.
inline bool is_kept_column(std::size_t row, std::int64_t v, std::int64_t vocab,
                           std::int64_t target) {
  if (v == target) return row != 4 || vocab == 1;
  if (row == 2) return false;
  return row == 3 ? v >= vocab / 2 : (v + static_cast<std::int64_t>(row)) % 3 != 0;
}

/// Rows of one vocabulary in shards of `tp` ranks; padding columns are NaN.
template <typename T>
struct ShardedRows {
  ShardedRows(std::int64_t vocab, int tp, const std::vector<RowTransform>& by, bool masked,
              Device* device)
      : vocab(vocab), transforms(by) {
    const RandomStream random(11, 3);
    const double unit = sizeof(T) == 8 ? 0x1p-53 : kRoundoff;
    for (std::size_t r = 0; r < kRows; ++r) {
      std::vector<double> x;
      for (std::int64_t v = 0; v < vocab; ++v) {
        const auto i = r * static_cast<std::uint64_t>(vocab) + static_cast<std::uint64_t>(v);
        x.push_back(static_cast<double>(
            T(logit_of(r, v, vocab, static_cast<float>(6 * random.uniform(i) - 3)))));
      }
      // Row 0 has its target among the logits that are not -inf.
      targets.push_back(
          r == kNothing ? -1 : static_cast<std::int32_t>((vocab - 1 - 37 * r % vocab) % vocab));
      if (r == 0) targets[0] = static_cast<std::int32_t>(vocab - 1);
      std::vector<bool> keeps(x.size(), true);
      for (std::int64_t v = 0; masked && v < vocab; ++v) {
        keeps[static_cast<std::size_t>(v)] = is_kept_column(r, v, vocab, targets[r]);
      }
      truth.emplace_back(x, keeps, by.empty() ? RowTransform{} : by[r], unit);
      valid.push_back(1);
    }
    for (int rank = 0; rank < tp; ++rank) {
      const VocabShard shard = vocab_shard(vocab, tp, rank);
      std::vector<T>& part = logits.emplace_back(kRows * static_cast<std::size_t>(shard.width),
                                                 T(std::numeric_limits<float>::quiet_NaN()));
      for (std::size_t r = 0; r < kRows; ++r) {
        for (std::int64_t v = shard.begin; v < shard.end; ++v) {
          part[r * static_cast<std::size_t>(shard.width) +
               static_cast<std::size_t>(v - shard.begin)] =
              T(truth[r].x[static_cast<std::size_t>(v)]);
        }
      }
      shards.push_back({DTypeOf<T>::value, part.data(), kRows, shard, targets.data(), valid.data(),
                        device, false, vocab, transforms.empty() ? nullptr : transforms.data(),
                        masked ? kept.emplace_back(bits_of(shard)).data() : nullptr});
    }
  }
  ShardedRows(const ShardedRows&) = delete;
  ShardedRows& operator=(const ShardedRows&) = delete;

  /// Returns the words of the rows' bits; those behind the columns are 1.
  std::vector<std::uint64_t> bits_of(const VocabShard& shard) const {
    const auto row_words = static_cast<std::size_t>((shard.width + 63) / 64);
    std::vector<std::uint64_t> words(kRows * row_words, ~std::uint64_t{0});
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::int64_t v = shard.begin; v < shard.end; ++v) {
        if (truth[r].kept[static_cast<std::size_t>(v)]) continue;
        const auto column = static_cast<std::size_t>(v - shard.begin);
        words[r * row_words + column / 64] &= ~(std::uint64_t{1} << (column % 64));
      }
    }
    return words;
  }

  std::int64_t vocab;
  std::vector<RowTransform> transforms;
  std::vector<TermRowTruth> truth;
  std::vector<std::int32_t> targets;
  std::vector<std::uint8_t> valid;
  std::vector<std::vector<T>> logits;
  std::vector<std::vector<std::uint64_t>> kept;
  std::vector<LogitsRows> shards;
};

struct TermStatistics {
  std::vector<std::vector<float>> columns{9, std::vector<float>(kRows, -7.0f)};

  float* at(std::size_t k) { return columns[k].data(); }
  RowStatistics of(bool all, bool mean, bool predictions = false) {
    return {at(0),
            at(1),
            at(2),
            all ? at(3) : nullptr,
            all ? at(4) : nullptr,
            mean ? at(5) : nullptr,
            mean ? at(6) : nullptr,
            predictions ? at(7) : nullptr,
            predictions ? at(8) : nullptr};
  }
};

inline void run_statistics(const LogitsRows& rows, const RowStatistics& out) {
  rows_statistics(rows, out);
  if (rows.device != nullptr) rows.device->synchronise();
}

/// Weights of the terms that are asked for.
struct Weights {
  std::vector<std::vector<float>> columns{4, std::vector<float>(kRows, 0.0f)};
  bool entropy;
  bool logsumexp;
  bool mean;

  /// `terms`: bits for the entropy, the logsumexp and the mean. One row has the log-probability's
  /// weight 0.
  explicit Weights(int terms)
      : entropy((terms & 1) != 0), logsumexp((terms & 2) != 0), mean((terms & 4) != 0) {
    for (std::size_t r = 0; r < kRows; ++r) {
      if (r == kNothing || r == kNoGradient) continue;
      const float by = r % 2 == 0 ? 0.5f : -1.25f;
      columns[0][r] = r == 4 ? 0.0f : -by;
      if (entropy) columns[1][r] = 0.75f * by;
      if (logsumexp) columns[2][r] = -0.3f * by;
      if (mean) columns[3][r] = 2.5f * by;
    }
  }

  RowGradients view() const {
    RowGradients view{columns[0].data()};
    if (entropy) view.terms[RowTerm::entropy] = columns[1].data();
    if (logsumexp) view.terms[RowTerm::logsumexp] = columns[2].data();
    if (mean) view.terms[RowTerm::mean_logprob] = columns[3].data();
    return view;
  }
  TermWeights of(std::size_t r) const {
    return {columns[0][r], columns[1][r], columns[2][r], columns[3][r]};
  }
};

/// Merged statistics, rounded to float32.
struct MergedSoftmax {
  std::vector<std::vector<float>> columns{4, std::vector<float>(kRows, 0.0f)};

  explicit MergedSoftmax(const std::vector<TermRowTruth>& truth) {
    for (std::size_t r = 0; r < kRows; ++r) {
      const auto shift = static_cast<float>(truth[r].max);
      const double by = truth[r].max - shift;
      columns[0][r] = shift;
      columns[1][r] = static_cast<float>(truth[r].sum * std::exp(by));
      columns[2][r] = static_cast<float>((truth[r].weighted + by * truth[r].sum) * std::exp(by));
      columns[3][r] = static_cast<float>(truth[r].finite);
    }
  }
  RowSoftmax view() const {
    return {columns[0].data(), columns[1].data(), columns[2].data(), columns[3].data()};
  }
};

template <typename T>
std::vector<T> run_gradient(LogitsRows rows, const RowSoftmax& softmax,
                            const RowGradients& gradients, bool in_place) {
  const auto size = static_cast<std::size_t>(rows.rows * rows.shard.width);
  const T* logits = static_cast<const T*>(rows.data);
  std::vector<T> copy(logits, logits + size);
  std::vector<T> out(in_place ? 0 : size, T(99.0f));
  rows.data = copy.data();
  T* to = in_place ? copy.data() : out.data();
  rows_gradient(rows, softmax, gradients, to);
  if (rows.device != nullptr) rows.device->synchronise();
  return std::vector<T>(to, to + size);
}

/// Transforms of all rows: none, temperatures, soft-caps far from the logits and amid them.
inline std::vector<std::vector<RowTransform>> all_transforms() {
  std::vector<RowTransform> mixed;
  for (std::size_t r = 0; r < kRows; ++r) {
    mixed.push_back(r % 2 == 0 ? RowTransform{1.3f, 0} : RowTransform{0.7f, 4.0f});
  }
  return {{},
          std::vector<RowTransform>(kRows, {1 / 0.7f, 0}),
          std::vector<RowTransform>(kRows, {1, 30}),
          std::vector<RowTransform>(kRows, {1.5f, 2.0f}),
          mixed};
}

struct Split {
  std::int64_t vocab;
  int tp;
};

/// The last shards of some have padding columns, or nothing else.
inline std::vector<Split> splits() {
  if (kSanitized) return {{5, 4}, {1000, 3}};
  return {{1, 1}, {5, 4}, {64, 1}, {130, 2}, {1000, 3}, {1100, 1}};
}

}  // namespace term_shards
}  // namespace lossgrid
