// SPDX-License-Identifier: Apache-2.0
// Statistics of rows on one vocab shard, and what makes them those of the whole vocabulary. Rows
// come all at once or some at a time, each in one read of its logits; a merge over TP makes them
// whole whatever the number of calls before (Milakov and Gimelshein, "Online normalizer calculation
// for softmax", 2018):
//   m = max over ranks m_r,   s = sum exp(m_r - m) s_r,
//   w = sum exp(m_r - m) (w_r + (m_r - m) s_r)   with w_r = sum exp(x - m_r) (x - m_r),
// m_r being the rank's shift (softmax_rows.h).
#pragma once

#include "impls/strategy.h"

namespace lossgrid {

/// How a merge communicates: shifts, then sums and targets together; or three all-reduces, as
/// Megatron-LM's `_VocabParallelCrossEntropy` has it.
enum class Exchange { two, three };

class ShardStatistics {
 public:
  ShardStatistics(Device& device, const LossProblem& problem, std::int64_t capacity);
  static std::int64_t bytes(const LossProblem& problem, std::int64_t capacity);
  /// Collectives over TP of merge(), called `times` times for `rows` rows together.
  static void add_merges(const LossProblem& problem, std::int64_t rows, std::int64_t times,
                         Exchange exchange, CollectiveCounts& tp);

  /// What follows is about rows [at, at + rows) of the capacity; give the same two numbers to come
  /// back to them.
  void select(std::int64_t at, std::int64_t rows) {
    at_ = at;
    rows_ = rows;
  }

  /// Logits of selected rows [begin, begin + logits.rows). Returns the valid targets that the shard
  /// owns.
  std::int64_t add(const Steps& steps, const LogitsRows& logits, std::int64_t begin);

  /// Makes the selected rows whole. `targets` [rows], of which `shard` owns some. Collective.
  void merge(const Steps& steps, Communicator& tp, const VocabShard& shard,
             const std::int32_t* targets, Exchange exchange = Exchange::two);

  /// What is known by token, after merge() or where the shard is the vocabulary: lp = x_y - m - ln
  /// s, and with row statistics entropy and vocab extrema; 0 for rows that predict nothing.
  void write(const Steps& steps, const std::int32_t* targets, const TokenOutputs& out);

  /// add, merge and write of one block of rows: those of `logits`.
  std::int64_t run(const Steps& steps, Communicator& tp, const LogitsRows& logits,
                   const TokenOutputs& out, Exchange exchange = Exchange::two);

  /// Where the own statistics of selected rows from `begin` on go.
  RowStatistics own(std::int64_t begin);

  /// Of the selected rows, for the gradient, after merge().
  float* shift() { return range(0).data(); }
  float* sum() { return sums(1).data(); }

 private:
  std::span<float> columns(FloatArray& array, std::int64_t width, std::int64_t first,
                           std::int64_t count) {
    return array.span(width * at_ + first * rows_, count * rows_);
  }
  std::span<float> range(std::int64_t column) { return columns(range_, range_width_, column, 1); }
  std::span<float> sums(std::int64_t column) { return columns(sums_, sums_width_, column, 1); }

  const bool all_;  // entropy and extrema too
  const std::int64_t range_width_;
  const std::int64_t sums_width_;
  std::int64_t at_ = 0;
  std::int64_t rows_ = 0;
  FloatArray own_shift_;
  FloatArray range_;  // shifts, then negated minima
  FloatArray sums_;   // targets, then sums, then weighted sums
};

}  // namespace lossgrid
