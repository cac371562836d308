// SPDX-License-Identifier: Apache-2.0
#include "impls/toolkit/teacher_statistics.h"

#include "harness/device/kernel/items.h"
#include "impls/kernels/teacher_rows.h"

namespace lossgrid {
namespace {

/// Returns the number of pairs of shift and sum: of the teacher, and of a part of the student's
/// columns.
std::int64_t pair_count(const LossProblem& problem) {
  const Divergence divergence = problem.terms().divergence;
  if (!divergence.is_any()) return 0;
  return divergence.on_support() || divergence.has_tail() ? 2 : 1;
}

/// Returns the number of merged pairs: 0 for a clamped divergence, whose ln q is given.
std::int64_t merged_pair_count(const LossProblem& problem) {
  return problem.terms().divergence.is_clamped() ? 0 : pair_count(problem);
}

std::int64_t column_floats(const LossProblem& problem, std::int64_t capacity) {
  return 2 * pair_count(problem) * capacity;
}

std::int64_t gathered_floats(const LossProblem& problem, std::int64_t capacity) {
  const std::int64_t ranks = problem.vocab_ranks();
  return ranks > 1 ? ranks * 2 * merged_pair_count(problem) * capacity : 0;
}

std::int64_t sum_floats(const LossProblem& problem, std::int64_t capacity) {
  return problem.has_teacher() ? 2 * capacity : 0;
}

std::int64_t tail_rows(const LossProblem& problem, std::int64_t capacity) {
  return problem.terms().divergence.has_tail() ? capacity : 0;
}

std::int64_t unused_floats(const LossProblem& problem, std::int64_t capacity) {
  return problem.has_teacher() ? capacity : 0;
}

}  // namespace

TeacherStatistics::TeacherStatistics(Device& device, const LossProblem& problem,
                                     std::int64_t capacity)
    : device_(device),
      divergence_(problem.terms().divergence),
      ranks_(problem.vocab_ranks()),
      pairs_(pair_count(problem)),
      columns_(device, column_floats(problem, capacity), "statistics"),
      gathered_(device, gathered_floats(problem, capacity), "statistics_gathered"),
      sums_(device, sum_floats(problem, capacity), "statistics"),
      unused_(device, unused_floats(problem, capacity), "statistics"),
      tail_(device, static_cast<std::size_t>(tail_rows(problem, capacity)), "statistics") {}

std::int64_t TeacherStatistics::bytes(const LossProblem& problem, std::int64_t capacity) {
  return kFloatBytes * (column_floats(problem, capacity) + gathered_floats(problem, capacity) +
                        sum_floats(problem, capacity) + unused_floats(problem, capacity)) +
         static_cast<std::int64_t>(sizeof(TailRow)) * tail_rows(problem, capacity);
}

void TeacherStatistics::add_merges(const LossProblem& problem, std::int64_t rows,
                                   std::int64_t times, CollectiveCounts& tp) {
  if (!problem.has_teacher() || problem.vocab_ranks() == 1) return;
  if (const std::int64_t pairs = merged_pair_count(problem); pairs > 0) {
    tp.add(Collective::all_gather, times, kFloatBytes * 2 * pairs * rows);
  }
  tp.add(Collective::all_reduce, times, kFloatBytes * 2 * rows);
}

void TeacherStatistics::run(const Steps& steps, Communicator& tp, const LogitsRows& logits,
                            const RowSoftmax& student, std::int64_t at) {
  if (!divergence_.is_any()) return;
  const std::int64_t rows = logits.rows;
  const DistilledRows both = distilled(logits);
  if (divergence_.is_clamped()) {
    for_each_item(device_, rows, SetRows{0, column(at, rows, kShift)});
    for_each_item(device_, rows, SetRows{1, column(at, rows, kSum)});
  } else {
    steps.statistics(both.teacher,
                     {column(at, rows, kShift), column(at, rows, kSum), unused_.data()});
    if (pairs_ > 1) {
      steps.support_statistics(both, column(at, rows, kSupportShift),
                               column(at, rows, kSupportSum));
    }
    merge(tp, at, rows);
  }
  if (divergence_.has_tail()) {
    steps.make_tail(device_, rows,
                    {divergence_, student.shift, student.sum, column(at, rows, kSupportShift),
                     column(at, rows, kSupportSum), column(at, rows, kShift),
                     column(at, rows, kSum), tail_.data() + at});
  }
  RowSoftmax softmax = student;
  complete(at, rows, softmax);
  steps.divergence(both, softmax.of_divergence(divergence_), softmax.of_teacher(),
                   {sums(at), sums(at) + rows});
  if (ranks_ > 1) steps.reduce_sum(tp, sums_.span(2 * at, 2 * rows));
}

void TeacherStatistics::merge(Communicator& tp, std::int64_t at, std::int64_t rows) {
  if (ranks_ == 1) return;
  const std::span<float> own = columns_.span(2 * pairs_ * at, 2 * pairs_ * rows);
  const std::span<float> received = gathered_.span(0, ranks_ * 2 * pairs_ * rows);
  tp.all_gather(std::span<const float>(own), received);
  for_each_item(device_, pairs_ * rows,
                MergePairs{received.data(), ranks_, pairs_, rows, own.data()});
}

void TeacherStatistics::write(std::int64_t at, std::int64_t rows, float* out) {
  if (!divergence_.is_any()) return;
  for_each_item(device_, rows,
                WriteDivergence{divergence_, sums(at), sums(at) + rows, tail(at), out});
}

void TeacherStatistics::complete(std::int64_t at, std::int64_t rows, RowSoftmax& softmax) {
  if (!divergence_.is_any()) return;
  softmax.teacher_shift = column(at, rows, kShift);
  softmax.teacher_sum = column(at, rows, kSum);
  softmax.divergence_of_student = sums(at) + rows;
  softmax.tail = tail(at);
  if (!divergence_.on_support()) return;
  softmax.support_shift = column(at, rows, kSupportShift);
  softmax.support_sum = column(at, rows, kSupportSum);
}

}  // namespace lossgrid
