// SPDX-License-Identifier: Apache-2.0
// TeacherStatistics: what a divergence from a teacher needs beside the statistics of the student's
// rows, over TP: shift and sum of the teacher's rows, those of the student's on the teacher's
// support if the divergence is on it (or outside of it, for a tail), and the sums of the divergence
// itself. Two rounds of communication for a block of rows: a gather of the pairs (shift, sum), and
// a sum of the parts of the divergence. Logits of both are read twice, none is copied.
#pragma once

#include "impls/kernels/teacher_rows.h"
#include "impls/toolkit/strategy.h"

namespace lossgrid {

class TeacherStatistics {
 public:
  /// Allocates the statistics of `capacity` rows; none without a teacher.
  TeacherStatistics(Device& device, const LossProblem& problem, std::int64_t capacity);
  static std::int64_t bytes(const LossProblem& problem, std::int64_t capacity);
  /// Adds the collectives over TP of run(), called `times` times for `rows` rows together.
  static void add_merges(const LossProblem& problem, std::int64_t rows, std::int64_t times,
                         CollectiveCounts& tp);

  /// Computes everything for the rows of `logits`, which are kept at [at, at + logits.rows).
  /// `student`: merged statistics of these rows. Collective.
  void run(const Steps& steps, Communicator& tp, const LogitsRows& logits,
           const RowSoftmax& student, std::int64_t at);

  /// Writes D of rows [at, at + rows) to `out`.
  void write(std::int64_t at, std::int64_t rows, float* out);

  /// Adds the statistics of rows [at, at + rows) to those of the student.
  void complete(std::int64_t at, std::int64_t rows, RowSoftmax& softmax);

 private:
  enum Column { kShift, kSum, kSupportShift, kSupportSum };

  float* column(std::int64_t at, std::int64_t rows, int which) {
    return columns_.data() + pairs_ * 2 * at + which * rows;
  }
  /// Returns null without a tail.
  TailRow* tail(std::int64_t at) { return divergence_.has_tail() ? tail_.data() + at : nullptr; }
  float* sums(std::int64_t at) { return sums_.data() + 2 * at; }
  void merge(Communicator& tp, std::int64_t at, std::int64_t rows);

  Device& device_;
  const Divergence divergence_;
  const std::int64_t ranks_;
  const std::int64_t pairs_;   // of shift and sum: of the teacher, and on its support
  FloatArray columns_;         // [capacity] of every column, by block
  FloatArray gathered_;        // [ranks of the vocabulary] of them
  FloatArray sums_;            // [2, rows] by block: of the teacher, of the student
  FloatArray unused_;          // [capacity] logits of targets
  DeviceArray<TailRow> tail_;  // [capacity] where there are tails
};

}  // namespace lossgrid
