// SPDX-License-Identifier: Apache-2.0
// TeacherStatistics: statistics over TP for a divergence from a teacher, in addition to those of
// the student's rows: shift and sum of the teacher's rows; shift and sum of the student's rows on
// the teacher's support if the divergence is on the support (or outside of the support, for a
// tail); and the sums of the divergence itself. A block of rows takes two rounds of communication:
// a gather of the pairs (shift, sum), and a sum of the parts of the divergence. The logits of both
// are read twice and never copied.
#pragma once

#include "impls/kernels/teacher_rows.h"
#include "impls/toolkit/strategy.h"

namespace lossgrid {

class TeacherStatistics {
 public:
  /// Allocates the statistics of `capacity` rows; allocates nothing without a teacher.
  TeacherStatistics(Device& device, const LossProblem& problem, std::int64_t capacity);
  static std::int64_t bytes(const LossProblem& problem, std::int64_t capacity);
  /// Adds the collectives over TP of `times` calls of run() for a total of `rows` rows.
  static void add_merges(const LossProblem& problem, std::int64_t rows, std::int64_t times,
                         CollectiveCounts& tp);

  /// Computes all statistics for the rows of `logits` and keeps them at [at, at + logits.rows).
  /// `student` has merged statistics of these rows. Collective.
  void run(const Steps& steps, Communicator& tp, const LogitsRows& logits,
           const RowSoftmax& student, std::int64_t at);

  /// Writes D of rows [at, at + rows) to `out`.
  void write(std::int64_t at, std::int64_t rows, float* out);

  /// Adds the statistics of rows [at, at + rows) to the student's statistics in `softmax`.
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
  const std::int64_t pairs_;   // pairs of shift and sum: of the teacher, and on its support
  FloatArray columns_;         // [capacity] of every column, by block
  FloatArray gathered_;        // columns of all ranks of the vocabulary
  FloatArray sums_;            // [2, rows] by block: sums of the teacher, of the student
  FloatArray unused_;          // [capacity] logits of targets
  DeviceArray<TailRow> tail_;  // [capacity], if the divergence has a tail
};

}  // namespace lossgrid
