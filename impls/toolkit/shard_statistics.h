// SPDX-License-Identifier: Apache-2.0
// ShardStatistics: statistics of rows on one vocab shard, and their merge over TP to statistics of
// the whole vocabulary. Rows are added all at once or some at a time, each by one read of its
// logits, before one merge (Milakov and Gimelshein, "Online normalizer calculation for softmax",
// 2018):
//   m = max over ranks m_r,   s = sum exp(m_r - m) s_r,
//   w = sum exp(m_r - m) (w_r + (m_r - m) s_r)   with w_r = sum exp(z - m_r) (z - m_r),
//   t = sum t_r + F_r (m_r - m)                  with t_r = sum of z - m_r over F_r finite logits,
// with m_r the rank's shift (kernels/rows.h).
#pragma once

#include "impls/toolkit/strategy.h"
#include "impls/toolkit/teacher_statistics.h"

namespace lossgrid {

/// Communication of a merge: one gather of everything, which every rank then merges itself; or
/// three all-reduces of shifts, sums and targets, as in Megatron-LM's `_VocabParallelCrossEntropy`.
enum class Exchange { one, three };

class ShardStatistics {
 public:
  /// Allocates the statistics of `capacity` rows, for the shards that `steps` makes.
  ShardStatistics(Device& device, const LossProblem& problem, const Steps& steps,
                  std::int64_t capacity, Exchange exchange = Exchange::one);
  static std::int64_t bytes(const LossProblem& problem, std::int64_t capacity,
                            Exchange exchange = Exchange::one);
  /// Adds the collectives over TP of `times` calls of merge() for a total of `rows` rows.
  static void add_merges(const LossProblem& problem, std::int64_t rows, std::int64_t times,
                         Exchange exchange, CollectiveCounts& tp);

  /// Selects rows [at, at + rows) of the capacity for the following calls; the same two numbers
  /// select the same rows again.
  void select(std::int64_t at, std::int64_t rows) {
    at_ = at;
    rows_ = rows;
  }

  /// Computes the shard's statistics of selected rows [begin, begin + logits.rows). Returns the
  /// number of valid targets that the shard owns.
  std::int64_t add(const Steps& steps, const LogitsRows& logits, std::int64_t begin);

  /// Merges the selected rows over TP. `targets` [rows]. Collective.
  void merge(const Steps& steps, Communicator& tp, const RowTargets& targets);

  /// Writes the outputs by token, after merge() or if the shard is the vocabulary:
  ///   lp = z_y - m - ln s,  H = - sum p ln p = ln s - w / s,  L = m + ln s,
  ///   M = (sum of z - m over the F finite logits - F ln s) / V,
  ///   sum p^2 = q / s^2 with q = sum of exp(2 (z - m)),  m + (sum of z - m) / F,
  /// top-1 and vocab extrema, if requested; 0 for rows that predict nothing.
  void write(const Steps& steps, const std::int32_t* targets, const TokenOutputs& out);

  /// Runs add and merge for the block of rows in `logits`, and computes the statistics for a
  /// divergence from a teacher.
  std::int64_t make(const Steps& steps, Communicator& tp, const LogitsRows& logits);

  /// Runs make and write. make and run are collective.
  std::int64_t run(const Steps& steps, Communicator& tp, const LogitsRows& logits,
                   const TokenOutputs& out);

  /// Returns the memory of this shard's statistics of selected rows from `begin` on.
  RowStatistics own(std::int64_t begin);

  /// Returns the columns of the selected rows that the gradient needs, after merge().
  RowSoftmax softmax();

 private:
  using Column = StatisticsColumns::Column;

  /// Returns the columns of the selected rows.
  StatisticsColumns selected() { return {columns_.data() + width_ * at_, rows_, kinds_}; }
  std::span<float> columns(Column first, Column last) {
    const StatisticsColumns own = selected();
    return {own.column(first),
            static_cast<std::size_t>(own.column(last) + rows_ - own.column(first))};
  }
  /// Returns the last column that is added up over shards.
  Column last_sum() const {
    if (kinds_.predictions) return Column::kBeaten;
    return kinds_.all ? Column::kWeighted : Column::kSum;
  }
  std::span<float> all_columns() { return columns_.span(width_ * at_, width_ * rows_); }

  void merge_gathered(const Steps& steps, Communicator& tp, const RowTargets& targets);
  void reduce_one_by_one(const Steps& steps, Communicator& tp, const RowTargets& targets);

  Device& device_;
  const StatisticsKinds kinds_;
  const bool zeroes_filtered_;
  const std::int64_t vocab_;
  const std::int64_t width_;
  const Exchange exchange_;
  DeviceArray<VocabShard> shards_;  // shards of the TP ranks
  std::int64_t at_ = 0;
  std::int64_t rows_ = 0;
  FloatArray columns_;    // [columns, rows] for every selection
  FloatArray gathered_;   // [tp, columns, rows] of one selection; or
  FloatArray own_shift_;  // [capacity]
  TeacherStatistics teacher_;
};

}  // namespace lossgrid
