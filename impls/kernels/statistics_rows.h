// SPDX-License-Identifier: Apache-2.0
// StatisticsColumns: statistics of rows as columns, and the items (items.h) on them: the merge over
// TP, and the outputs by token. Formulas: shard_statistics.h. Plain data only: nvcc compiles this
// header.
#pragma once

#include <algorithm>

#include "harness/device/kernel/portable.h"
#include "harness/problem/batch/row_terms.h"
#include "harness/problem/values/vocab_shard.h"

namespace lossgrid {

/// Statistics of a row that are made in addition to shift, target and sum.
struct StatisticsKinds {
  bool all = false;          // min and weighted, for entropy and extrema
  bool mean = false;         // total and finite, for means over the vocabulary
  bool predictions = false;  // squares and beaten; only with `mean`

  constexpr std::int64_t width() const {
    return 3 + (all ? 2 : 0) + (mean ? 2 : 0) + (predictions ? 2 : 0);
  }
  constexpr void add(const StatisticsKinds& other) {
    all |= other.all;
    mean |= other.mean;
    predictions |= other.predictions;
  }
};

/// Returns the statistics from which a term (WriteRow) and its gradient are made.
constexpr StatisticsKinds statistics_of(RowTerm term) {
  switch (term) {
    case RowTerm::entropy:
    case RowTerm::vocab_min:
    case RowTerm::vocab_max:
      return {.all = true};
    case RowTerm::mean_logprob:
      return {.mean = true};
    case RowTerm::sum_p2:
    case RowTerm::top1:
    case RowTerm::mean_logit:
      return {.mean = true, .predictions = true};
    case RowTerm::logsumexp:
    case RowTerm::divergence:
      break;
  }
  return {};
}

/// Table [columns, rows] of the available statistics, in the order of Column. Columns that are
/// reduced together are adjacent.
struct StatisticsColumns {
  enum Column { kMin, kShift, kTarget, kTotal, kFinite, kSum, kWeighted, kSquares, kBeaten };

  float* data;
  std::int64_t rows;
  StatisticsKinds kinds;

  constexpr std::int64_t width() const { return kinds.width(); }
  constexpr float* column(Column which) const {
    const int left_out = (kinds.all           ? 0
                          : which > kWeighted ? 2
                                              : 1) +
                         (kinds.mean || which < kTotal ? 0 : 2);
    return data + (which - left_out) * rows;
  }
  constexpr float& at(Column which, std::int64_t r) const { return column(which)[r]; }
};

/// True if a shard has an id that is more probable than the target. `own` are the shard's
/// statistics, and `shift` is the largest logit of the vocabulary. The shard that owns the target
/// compares its own ids with it; if they are not more probable, the target is beaten if another
/// shard has a larger logit. A lower id with the same logit beats the target too, and is found by
/// the shard that has it.
LOSSGRID_KERNEL bool beats(const StatisticsColumns& own, float own_shift, const VocabShard& shard,
                           std::int32_t target, float shift, std::int64_t r) {
  if (shard.owns(target)) {
    return own.at(StatisticsColumns::kBeaten, r) > 0 || own_shift < shift;
  }
  return shard.end <= target && own_shift == shift;
}

/// Negates the minimum, so that a maximum over ranks reduces it.
struct NegateMin {
  StatisticsColumns columns;

  LOSSGRID_KERNEL void operator()(std::int64_t r) const {
    float& min = columns.at(StatisticsColumns::kMin, r);
    min = -min;
  }
};

/// Merges the statistics of all shards, one rank's columns after the other with minima negated, to
/// statistics of the vocabulary.
struct MergeRow {
  using Columns = StatisticsColumns;
  Columns received;          // columns of rank 0
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
    float squares = 0;
    float beaten = 0;
    for (std::int64_t k = 0; k < ranks; ++k) {
      const Columns shard = of(k);
      const float distance = shard.at(Columns::kShift, r) - shift;
      if (shards[k].owns(targets[r])) target = shard.at(Columns::kTarget, r) + distance;
      if (whole.kinds.mean) add_total(shard, distance, r, total, finite);
      if (whole.kinds.predictions &&
          beats(shard, shard.at(Columns::kShift, r), shards[k], targets[r], shift, r))
        beaten = 1;
      const float own = shard.at(Columns::kSum, r);
      if (own == 0) continue;  // exp(distance) of an empty shard may be infinite
      const float scale = std::exp(distance);
      if (scale == 0) continue;  // the term vanishes, and distance * own may be infinite
      sum += scale * own;
      if (whole.kinds.predictions) squares += scale * (scale * shard.at(Columns::kSquares, r));
      if (whole.kinds.all) weighted += scale * (shard.at(Columns::kWeighted, r) + distance * own);
    }
    whole.at(Columns::kShift, r) = shift;
    whole.at(Columns::kSum, r) = sum;
    whole.at(Columns::kTarget, r) = target;
    if (whole.kinds.mean) {
      whole.at(Columns::kTotal, r) = total;
      whole.at(Columns::kFinite, r) = finite;
    }
    if (whole.kinds.predictions) {
      whole.at(Columns::kSquares, r) = squares;
      whole.at(Columns::kBeaten, r) = beaten;
    }
    if (!whole.kinds.all) return;
    whole.at(Columns::kWeighted, r) = weighted;
    whole.at(Columns::kMin, r) = -largest(Columns::kMin, r);
  }

 private:
  /// Adds a shard's total, moved by the distance of its shift to the vocabulary's shift.
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

/// Rescales a shard's own statistics from its shift to the vocabulary's shift, and undoes the
/// negation of the vocabulary's minimum.
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
    if (columns.kinds.predictions) {
      const float whole = columns.at(Columns::kShift, r);
      columns.at(Columns::kBeaten, r) =
          beats(columns, own_shift[r], shard, targets[r], whole, r) ? 1.0f : 0.0f;
    }
    float& sum = columns.at(Columns::kSum, r);
    if (sum == 0) return;  // exp(distance) of an empty shard may be infinite
    const float scale = std::exp(distance);
    if (columns.kinds.all) {
      float& weighted = columns.at(Columns::kWeighted, r);
      // If the scale is 0, distance * sum may be infinite.
      weighted = scale > 0 ? scale * (weighted + distance * sum) : 0.0f;
    }
    if (columns.kinds.predictions) {
      float& squares = columns.at(Columns::kSquares, r);
      squares = scale * (scale * squares);
    }
    sum *= scale;
  }
};

/// Per-token output columns, [rows] each; null if a number is not requested.
struct OutputColumns {
  float* logprobs;
  ByRowTerm<float*> terms = {};  // without the divergence (teacher_statistics.h)
};

/// Writes the outputs of a token, 0 for rows that predict nothing.
struct WriteRow {
  using Columns = StatisticsColumns;
  Columns columns;
  const std::int32_t* targets;  // [rows]
  OutputColumns out;
  float vocab;                   // V
  bool zeroes_filtered = false;  // a target of -inf has the log-probability 0

  LOSSGRID_KERNEL void operator()(std::int64_t r) const {
    const bool predicts = targets[r] >= 0;
    // The sum of a single logit is exactly 1, which exponentials of kernels only approximate.
    const float log_sum = vocab == 1 ? 0.0f : std::log(columns.at(Columns::kSum, r));
    float target = columns.at(Columns::kTarget, r);
    // The distance of a single logit from itself is 0, but its distance from a float32 shift may
    // differ in float64.
    if (vocab == 1 && -infinity() < target && target < infinity()) target = 0;
    const bool is_filtered = zeroes_filtered && target == -infinity();
    out.logprobs[r] = predicts && !is_filtered ? target - log_sum : 0.0f;
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
      case RowTerm::sum_p2: {
        const float sum = columns.at(Columns::kSum, r);
        return columns.at(Columns::kSquares, r) / sum / sum;
      }
      case RowTerm::top1:
        return columns.at(Columns::kBeaten, r) > 0 ? 0.0f : 1.0f;
      case RowTerm::mean_logit:
        return columns.at(Columns::kShift, r) +
               columns.at(Columns::kTotal, r) / columns.at(Columns::kFinite, r);
      case RowTerm::divergence:
        break;
    }
    return 0;
  }
};

}  // namespace lossgrid
