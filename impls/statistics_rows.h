// SPDX-License-Identifier: Apache-2.0
// StatisticsColumns: statistics of rows as columns, and the items (items.h) on them: the merge over
// TP, and the outputs by token. Formulas: shard_statistics.h. Plain data only: nvcc compiles this
// header.
#pragma once

#include <algorithm>

#include "harness/device/kernel/portable.h"
#include "harness/problem/batch/row_terms.h"
#include "harness/problem/batch/vocab_shard.h"

namespace lossgrid {

/// Statistics of a row that are made beside shift, target and sum.
struct StatisticsKinds {
  bool all = false;   // min and weighted, for entropy and extrema
  bool mean = false;  // total and finite, for the mean over the vocabulary

  constexpr std::int64_t width() const { return 3 + (all ? 2 : 0) + (mean ? 2 : 0); }
};

/// Table [columns, rows] of the statistics that there are, in the order of Column. Columns that are
/// reduced together are adjacent.
struct StatisticsColumns {
  enum Column { kMin, kShift, kTarget, kTotal, kFinite, kSum, kWeighted };

  float* data;
  std::int64_t rows;
  StatisticsKinds kinds;

  constexpr std::int64_t width() const { return kinds.width(); }
  constexpr float* column(Column which) const {
    const int left_out = (kinds.all ? 0 : 1) + (kinds.mean || which < kTotal ? 0 : 2);
    return data + (which - left_out) * rows;
  }
  constexpr float& at(Column which, std::int64_t r) const { return column(which)[r]; }
};

/// Negates the minimum, so that a maximum over ranks reduces it.
struct NegateMin {
  StatisticsColumns columns;

  LOSSGRID_KERNEL void operator()(std::int64_t r) const {
    float& min = columns.at(StatisticsColumns::kMin, r);
    min = -min;
  }
};

/// Merges the statistics of all shards, one rank's columns after the other with minima negated, to
/// those of the vocabulary.
struct MergeRow {
  using Columns = StatisticsColumns;
  Columns received;          // of rank 0
  const VocabShard* shards;  // [ranks]
  std::int64_t ranks;
  const std::int32_t* targets;  // [rows]
  Columns whole;

  LOSSGRID_KERNEL Columns of(std::int64_t rank) const {
    return {received.data + rank * received.width() * received.rows, received.rows, received.kinds};
  }

  LOSSGRID_KERNEL void operator()(std::int64_t r) const {
    const float shift = largest(Columns::kShift, r);
    float sum = 0;
    float weighted = 0;
    float target = 0;
    float total = 0;
    float finite = 0;
    for (std::int64_t k = 0; k < ranks; ++k) {
      const Columns shard = of(k);
      const float distance = shard.at(Columns::kShift, r) - shift;
      if (shards[k].owns(targets[r])) target = shard.at(Columns::kTarget, r) + distance;
      if (whole.kinds.mean) add_total(shard, distance, r, total, finite);
      const float own = shard.at(Columns::kSum, r);
      if (own == 0) continue;  // exp(distance) of an empty shard may be infinite
      const float scale = std::exp(distance);
      if (scale == 0) continue;  // nothing is left, and distance * own may be infinite
      sum += scale * own;
      if (whole.kinds.all) weighted += scale * (shard.at(Columns::kWeighted, r) + distance * own);
    }
    whole.at(Columns::kShift, r) = shift;
    whole.at(Columns::kSum, r) = sum;
    whole.at(Columns::kTarget, r) = target;
    if (whole.kinds.mean) {
      whole.at(Columns::kTotal, r) = total;
      whole.at(Columns::kFinite, r) = finite;
    }
    if (!whole.kinds.all) return;
    whole.at(Columns::kWeighted, r) = weighted;
    whole.at(Columns::kMin, r) = -largest(Columns::kMin, r);
  }

 private:
  /// Adds a shard's total, moved by the distance of its shift to that of the vocabulary.
  LOSSGRID_KERNEL static void add_total(const Columns& shard, float distance, std::int64_t r,
                                        float& total, float& finite) {
    const float own = shard.at(Columns::kFinite, r);
    if (own == 0) return;  // the shift of a shard without finite logits is -inf
    total += shard.at(Columns::kTotal, r) + own * distance;
    finite += own;
  }

  LOSSGRID_KERNEL float largest(Columns::Column column, std::int64_t r) const {
    float most = of(0).at(column, r);
    for (std::int64_t k = 1; k < ranks; ++k) most = std::max(most, of(k).at(column, r));
    return most;
  }
};

/// Rescales the own statistics from the own shift to that of the vocabulary, and negates the
/// minimum of the vocabulary back.
struct MoveShift {
  using Columns = StatisticsColumns;
  Columns columns;
  const float* own_shift;  // [rows]
  VocabShard shard;
  const std::int32_t* targets;  // [rows]

  LOSSGRID_KERNEL void operator()(std::int64_t r) const {
    if (columns.kinds.all) columns.at(Columns::kMin, r) *= -1;
    const float distance = own_shift[r] - columns.at(Columns::kShift, r);
    if (shard.owns(targets[r])) columns.at(Columns::kTarget, r) += distance;
    if (columns.kinds.mean && columns.at(Columns::kFinite, r) > 0) {
      columns.at(Columns::kTotal, r) += columns.at(Columns::kFinite, r) * distance;
    }
    float& sum = columns.at(Columns::kSum, r);
    if (sum == 0) return;  // exp(distance) of an empty shard may be infinite
    const float scale = std::exp(distance);
    if (columns.kinds.all) {
      float& weighted = columns.at(Columns::kWeighted, r);
      // If the scale is 0, distance * sum may be infinite.
      weighted = scale > 0 ? scale * (weighted + distance * sum) : 0.0f;
    }
    sum *= scale;
  }
};

/// Per-token output columns, [rows] each; null where a number is not asked for.
struct OutputColumns {
  float* logprobs;
  ByRowTerm<float*> terms = {};  // but the divergence (teacher_statistics.h)
};

/// Writes the outputs of a token, 0 for rows that predict nothing.
struct WriteRow {
  using Columns = StatisticsColumns;
  Columns columns;
  const std::int32_t* targets;  // [rows]
  OutputColumns out;
  float vocab;  // V

  LOSSGRID_KERNEL void operator()(std::int64_t r) const {
    const bool predicts = targets[r] >= 0;
    const float log_sum = std::log(columns.at(Columns::kSum, r));
    out.logprobs[r] = predicts ? columns.at(Columns::kTarget, r) - log_sum : 0.0f;
    for (int k = 0; k < kRowTerms; ++k) {
      if (out.terms.of[k] == nullptr) continue;
      out.terms.of[k][r] = predicts ? number(static_cast<RowTerm>(k), log_sum, r) : 0.0f;
    }
  }

 private:
  /// Returns a term of row r from its statistics.
  LOSSGRID_KERNEL float number(RowTerm term, float log_sum, std::int64_t r) const {
    switch (term) {
      case RowTerm::entropy:
        return log_sum - columns.at(Columns::kWeighted, r) / columns.at(Columns::kSum, r);
      case RowTerm::logsumexp:
        return columns.at(Columns::kShift, r) + log_sum;
      case RowTerm::mean_logprob:
        // (1 / V) sum of z - shift - ln s over logits that are not -inf.
        return (columns.at(Columns::kTotal, r) - columns.at(Columns::kFinite, r) * log_sum) / vocab;
      case RowTerm::vocab_min:
        return columns.at(Columns::kMin, r);
      case RowTerm::vocab_max:
        return columns.at(Columns::kShift, r);
      case RowTerm::divergence:
        break;
    }
    return 0;
  }
};

}  // namespace lossgrid
