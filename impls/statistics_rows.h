// SPDX-License-Identifier: Apache-2.0
// StatisticsColumns: statistics of rows as columns, and the items (items.h) on them: the merge over
// TP, and the outputs by token. Formulas: shard_statistics.h. Plain data only: nvcc compiles this
// header.
#pragma once

#include <algorithm>

#include "harness/device/kernel/portable.h"
#include "harness/problem/batch/vocab_shard.h"

namespace lossgrid {

/// Table [columns, rows]: five columns with all statistics, else without the first and the last
/// one. Columns that are reduced together are adjacent.
struct StatisticsColumns {
  enum Column { kMin, kShift, kTarget, kSum, kWeighted };

  float* data;
  std::int64_t rows;
  bool all;  // entropy and extrema too

  constexpr std::int64_t width() const { return all ? 5 : 3; }
  constexpr float* column(Column which) const { return data + (which - (all ? 0 : 1)) * rows; }
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
    return {received.data + rank * received.width() * received.rows, received.rows, received.all};
  }

  LOSSGRID_KERNEL void operator()(std::int64_t r) const {
    const float shift = largest(Columns::kShift, r);
    float sum = 0;
    float weighted = 0;
    float target = 0;
    for (std::int64_t k = 0; k < ranks; ++k) {
      const Columns shard = of(k);
      const float distance = shard.at(Columns::kShift, r) - shift;
      if (shards[k].owns(targets[r])) target = shard.at(Columns::kTarget, r) + distance;
      const float own = shard.at(Columns::kSum, r);
      if (own == 0) continue;  // exp(distance) of an empty shard may be infinite
      const float scale = std::exp(distance);
      if (scale == 0) continue;  // nothing is left, and distance * own may be infinite
      sum += scale * own;
      if (whole.all) weighted += scale * (shard.at(Columns::kWeighted, r) + distance * own);
    }
    whole.at(Columns::kShift, r) = shift;
    whole.at(Columns::kSum, r) = sum;
    whole.at(Columns::kTarget, r) = target;
    if (!whole.all) return;
    whole.at(Columns::kWeighted, r) = weighted;
    whole.at(Columns::kMin, r) = -largest(Columns::kMin, r);
  }

 private:
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
    if (columns.all) columns.at(Columns::kMin, r) *= -1;
    const float distance = own_shift[r] - columns.at(Columns::kShift, r);
    if (shard.owns(targets[r])) columns.at(Columns::kTarget, r) += distance;
    float& sum = columns.at(Columns::kSum, r);
    if (sum == 0) return;  // exp(distance) of an empty shard may be infinite
    const float scale = std::exp(distance);
    if (columns.all) {
      float& weighted = columns.at(Columns::kWeighted, r);
      // If the scale is 0, distance * sum may be infinite.
      weighted = scale > 0 ? scale * (weighted + distance * sum) : 0.0f;
    }
    sum *= scale;
  }
};

/// Per-token output columns, [rows] each. entropy, vocab_min, vocab_max are null unless row
/// statistics are on.
struct OutputColumns {
  float* logprobs;
  float* entropy;
  float* vocab_min;
  float* vocab_max;
};

/// Writes the outputs of a token, 0 for rows that predict nothing.
struct WriteRow {
  using Columns = StatisticsColumns;
  Columns columns;
  const std::int32_t* targets;  // [rows]
  OutputColumns out;

  LOSSGRID_KERNEL void operator()(std::int64_t r) const {
    const bool predicts = targets[r] >= 0;
    const float sum = columns.at(Columns::kSum, r);
    out.logprobs[r] = predicts ? columns.at(Columns::kTarget, r) - std::log(sum) : 0.0f;
    if (!columns.all) return;
    out.entropy[r] = predicts ? std::log(sum) - columns.at(Columns::kWeighted, r) / sum : 0.0f;
    out.vocab_min[r] = predicts ? columns.at(Columns::kMin, r) : 0.0f;
    out.vocab_max[r] = predicts ? columns.at(Columns::kShift, r) : 0.0f;
  }
};

}  // namespace lossgrid
