// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/truth/clamped_divergence.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/verify/truth/divergence_summands.h"

namespace lossgrid {
namespace {

/// The numbers of one column of a clamped divergence; those of q are 0 where nothing was sent.
struct ClampedLogs {
  double q = 0;       // exp(log_q)
  double q_left = 0;  // that where ln p has a gradient
  double p = 0;
  double log_q = 0;  // both are at least the clamp
  double log_p = 0;
  double distance = 0;  // of ln p from the clamp
  ChainBound p_error;
  ChainBound q_error;

  /// True if a computation may find ln p on the other side of the clamp.
  bool straddles(int serial_adds) const {
    return q > 0 && std::abs(distance) <= p_error.at(serial_adds);
  }
};

ClampedLogs clamped_logs_of(const DivergenceTruth& truth, double student, double teacher,
                            double student_error, double teacher_error) {
  const double least = truth.divergence.log_prob_min;
  const double log_p = truth.p.log_p(student);
  ClampedLogs logs;
  logs.p = std::exp(log_p);
  logs.p_error = truth.p.error(student, student_error);
  if (teacher == -std::numeric_limits<double>::infinity()) return logs;
  logs.log_q = std::max(teacher, least);
  logs.log_p = std::max(log_p, least);
  logs.distance = log_p == least ? 0 : log_p - least;
  logs.q = std::exp(logs.log_q);
  logs.q_left = log_p > least ? logs.q : 0;
  logs.q_error = {truth.q.own_error(teacher) + teacher_error};
  return logs;
}

}  // namespace

void add_clamped_sums(const DistilledLogits& logits, DivergenceTruth& truth) {
  for (std::size_t v = 0; v < logits.student.size(); ++v) {
    const ClampedLogs at = clamped_logs_of(truth, logits.student[v], logits.teacher[v],
                                           logits.student_errors[v], logits.teacher_errors[v]);
    add_summand(at.q, at.log_q - at.log_p, at.q_error, sum_of(at.q_error, at.p_error), truth.value,
                truth.value_error);
    add_summand(at.q_left, 1, at.q_error, {}, truth.of_student, truth.of_student_error);
    for (std::size_t k = 0; k < kStraddleAdds.size(); ++k) {
      if (at.straddles(kStraddleAdds[k])) truth.straddling[k] += at.q;
    }
  }
}

DivergenceColumn clamped_column(const DivergenceTruth& truth, const Enclosure& gradient,
                                int serial_adds, double student, double teacher,
                                double student_error, double teacher_error) {
  const ClampedLogs at = clamped_logs_of(truth, student, teacher, student_error, teacher_error);
  const double largest = std::max(std::abs(gradient.low), std::abs(gradient.high));
  const double direction = truth.of_student * at.p - at.q_left;
  // With another id on the other side of the clamp, all of an erroneous p has a gradient.
  const double largest_p = std::min(1.0, at.p * std::exp(at.p_error.at(serial_adds)));
  double error = at.p * truth.of_student * at.p_error.at(serial_adds) +
                 largest_p * truth.error_of_student(serial_adds) +
                 at.q_left * at.q_error.at(serial_adds) +
                 kU4 * (truth.of_student * at.p + at.q_left);
  if (at.straddles(serial_adds)) error += at.q * (1 + at.q_error.at(serial_adds));
  return {.want = times(gradient.value, direction),
          .roundings = times(largest, error),
          .floor = kVanishingF32 * std::max(1.0, largest),
          .objective = times(gradient.radius(), std::abs(direction))};
}

}  // namespace lossgrid
