// SPDX-License-Identifier: Apache-2.0
// Statistics of rows whose logits exist chunk by chunk: every chunk adds those of the own vocab
// shard, relative to the shard's own maximum, and two all-reduces over TP make them whole for all
// rows at once, whatever the number of chunks (the merge of Milakov and Gimelshein, "Online
// normalizer calculation for softmax", 2018):
//   m = max over ranks m_r,   s = sum exp(m_r - m) s_r,
//   w = sum exp(m_r - m) (w_r + (m_r - m) s_r)   with w_r = sum exp(x - m_r) (x - m_r).
#pragma once

#include "impls/linear_pass.h"

namespace lossgrid {

class LinearStatistics {
 public:
  LinearStatistics(Device& device, const LossProblem& problem, std::int64_t capacity);
  static std::int64_t bytes(const LossProblem& problem, std::int64_t rows);
  /// Collectives over TP of reduce(), called `times` times for `rows` rows together.
  static void add_reductions(const LossProblem& problem, std::int64_t rows, std::int64_t times,
                             CollectiveCounts& tp);

  /// Starts with `rows` rows, at most the capacity.
  void begin(std::int64_t rows) { rows_ = rows; }

  /// Logits of rows [begin, begin + logits.rows). Returns the valid targets that the shard owns.
  std::int64_t add(const Steps& steps, const LogitsRows& logits, std::int64_t begin);

  /// Makes all rows whole and writes what is known by token. `targets` [rows], of which `shard`
  /// owns some. Collective.
  void reduce(const Steps& steps, Communicator& tp, const VocabShard& shard,
              const std::int32_t* targets, const TokenOutputs& out);

  /// For the gradient, after reduce().
  float* max() { return max_.data(); }
  float* sum() { return sums_.data(); }

 private:
  std::span<float> column(FloatArray& columns, std::int64_t k) {
    return columns.span(k * rows_, rows_);
  }

  const bool all_;  // entropy and extrema too
  std::int64_t rows_ = 0;
  FloatArray local_max_;
  FloatArray max_;   // [rows], then negated minima
  FloatArray sums_;  // [rows], then targets, then weighted sums
};

/// Statistics of all rows in one sweep over the chunks of `pass`; what is known by token goes to
/// `out`. Returns the valid targets that the shard owns. Collective.
std::int64_t sweep_statistics(const Steps& steps, Communicator& tp, const VocabShard& shard,
                              const RowTable& rows, LinearPass& pass, LinearStatistics& statistics,
                              const TokenOutputs& out);

}  // namespace lossgrid
