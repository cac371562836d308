// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/truth/divergence_truth.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/verify/truth/clamped_divergence.h"
#include "harness/verify/truth/divergence_summands.h"
#include "harness/verify/truth/divergence_tail.h"

namespace lossgrid {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool is_left_out(const Divergence& divergence, double teacher) {
  return divergence.on_support() && teacher == -kInfinity;
}

/// True if the sum of the teacher, or of the student, counts in D.
bool has_teacher_side(const Divergence& divergence) {
  return divergence.kind != Divergence::Kind::reverse;
}
bool has_student_side(const Divergence& divergence) {
  return divergence.kind != Divergence::Kind::forward;
}

/// Returns the weight of the sum of the teacher.
double weight_of_teacher(const Divergence& divergence) {
  if (!has_student_side(divergence)) return 1;
  return has_teacher_side(divergence) ? divergence.beta : 0;
}

Softmax softmax_of(std::span<const double> logits, std::span<const double> errors,
                   const auto& is_counted) {
  Softmax softmax{.max = -kInfinity, .sum = 0};
  for (std::size_t v = 0; v < logits.size(); ++v) {
    if (is_counted(v)) softmax.max = std::max(softmax.max, logits[v]);
  }
  double weighted = 0;
  for (std::size_t v = 0; v < logits.size(); ++v) {
    if (!is_counted(v)) continue;
    const double term = std::exp(logits[v] - softmax.max);
    softmax.sum += term;
    weighted += term * errors[v];
  }
  softmax.shared_error = weighted / softmax.sum;
  return softmax;
}

/// Returns ln(b q + (1 - b) p) of the logarithms of both.
double log_mixture(double beta, double log_q, double log_p) {
  const double a = std::log(beta) + log_q;
  const double b = std::log1p(-beta) + log_p;
  const double larger = std::max(a, b);
  if (larger == -kInfinity) return larger;
  return larger + std::log(std::exp(a - larger) + std::exp(b - larger));
}

/// The logarithms of one column with their errors.
struct Logs {
  double p = 0;  // probability of the student
  double q = 0;  // of the teacher
  double log_p = 0;
  double log_q = 0;
  double compared_q = 0;  // what ln p is compared with
  double log_m = 0;
  ChainBound p_error;
  ChainBound q_error;
  ChainBound compared_error;
  // Errors of a mixture: of ln(p / m), and of ln(p / m) and ln(q / m) as they count for its value.
  ChainBound p_by_m_error;
  double p_by_m_own = 0;
  double q_by_m_own = 0;
};

Logs logs_of(const DivergenceTruth& truth, double student, double teacher, double student_error,
             double teacher_error) {
  Logs logs;
  logs.log_p = truth.p.log_p(student);
  logs.log_q = truth.q.log_p(teacher);
  logs.p = std::exp(logs.log_p);
  logs.q = std::exp(logs.log_q);
  logs.p_error = truth.p.error(student, student_error);
  logs.q_error = truth.q.error(teacher, teacher_error);
  logs.compared_q = logs.log_q;
  logs.compared_error = logs.q_error;
  if (truth.divergence.topk == Divergence::Topk::zero_outside && teacher == -kInfinity) {
    logs.compared_q = Divergence::kLogOutside;
    logs.compared_error = {};
  }
  if (truth.divergence.kind != Divergence::Kind::jsd) return logs;
  logs.log_m = log_mixture(truth.divergence.beta, logs.log_q, logs.log_p);
  if (std::isinf(logs.log_m)) return logs;
  const double of_m = kU4 * (2 + std::abs(logs.log_m));
  const double q_share = std::exp(std::log(truth.divergence.beta) + logs.log_q - logs.log_m);
  const double p_own = truth.p.own_error(student);
  logs.p_by_m_error.add(q_share, sum_of(logs.p_error, logs.q_error));
  logs.p_by_m_error.fixed += (1 - q_share) * p_own + of_m;
  logs.p_by_m_own = p_own + of_m;
  logs.q_by_m_own = truth.q.own_error(teacher) + of_m;
  return logs;
}

/// Returns the numbers of an id that was not sent, as its share of the tail.
Logs logs_of_part(const DivergenceTruth& truth, double student, double student_error) {
  const TailTruth& tail = truth.tail;
  Logs logs;
  logs.log_p = truth.p.log_p(student);
  logs.p = std::exp(logs.log_p);
  logs.p_error = truth.p.error(student, student_error);
  if (!tail.has_gradient()) {
    logs.compared_q = logs.log_p + 1;
    logs.log_m = logs.log_p;
    return logs;
  }
  logs.log_q = logs.log_p - tail.log_ratio();
  logs.q = std::exp(logs.log_q);
  logs.q_error = sum_of(logs.p_error, sum_of(tail.p_error, tail.q_error));
  logs.compared_q = logs.log_q;
  logs.compared_error = sum_of(tail.p_error, tail.q_error);
  logs.log_m = logs.log_p - (tail.log_p - tail.log_m);
  logs.p_by_m_error = tail.p_by_m_error;
  return logs;
}

/// Returns the numbers of the tail itself.
Logs logs_of_tail(const DivergenceTruth& truth) {
  const TailTruth& tail = truth.tail;
  Logs logs;
  logs.log_p = std::max(tail.log_p, kLogSmallestTail);
  logs.log_q = logs.compared_q = tail.log_q;
  logs.p = std::exp(logs.log_p);
  logs.q = std::exp(logs.log_q);
  logs.p_error = tail.p_error;
  logs.q_error = logs.compared_error = tail.q_error;
  if (truth.divergence.kind != Divergence::Kind::jsd) return logs;
  const auto own_error = [](double log) { return kU4 * (4 + std::abs(log)); };
  logs.log_m = log_mixture(truth.divergence.beta, logs.log_q, logs.log_p);
  const double of_m = own_error(logs.log_m);
  const double q_share = std::exp(std::log(truth.divergence.beta) + logs.log_q - logs.log_m);
  logs.p_by_m_error.add(q_share, sum_of(logs.p_error, logs.q_error));
  logs.p_by_m_error.fixed += (1 - q_share) * own_error(logs.log_p) + of_m;
  logs.p_by_m_own = own_error(logs.log_p) + of_m;
  logs.q_by_m_own = own_error(logs.log_q) + of_m;
  return logs;
}

}  // namespace

bool Softmax::is_distribution() const {
  return std::isfinite(max) && std::isfinite(sum);
}

double Softmax::log_p(double logit) const {
  return logit == -kInfinity ? -kInfinity : logit - max - std::log(sum);
}

ChainBound Softmax::error(double logit, double logit_error) const {
  const double distance = logit == -kInfinity ? 0 : std::abs(logit - max);
  const double roundings = kU4 * (8 + std::abs(std::log(sum))) + kU4 * distance;
  return {roundings + logit_error + shared_error, unit_roundoff(DType::f32)};
}

double Softmax::own_error(double logit) const {
  const double distance = logit == -kInfinity ? 0 : std::abs(logit - max);
  return kU4 * (2 + std::abs(std::log(sum))) + kU4 * distance;
}

bool DivergenceTruth::has_gradient() const {
  return !std::isnan(value) && std::isfinite(of_student);
}

bool DivergenceTruth::gradient_adds_up() const {
  return std::isfinite(value);
}

double DivergenceTruth::error_of_student(int serial_adds) const {
  std::size_t k = 0;
  while (k + 1 < kStraddleAdds.size() && kStraddleAdds[k] < serial_adds) ++k;
  return of_student_error.at(serial_adds) + straddling[k];
}

DivergenceTruth divergence_truth(const Divergence& divergence, const DistilledLogits& logits,
                                 bool allows_offset) {
  DivergenceTruth truth;
  truth.divergence = divergence;
  const auto is_counted = [&](std::size_t v) {
    return !is_left_out(divergence, logits.teacher[v]);
  };
  truth.p = softmax_of(logits.student, logits.student_errors, is_counted);
  truth.q = softmax_of(logits.teacher, logits.teacher_errors, is_counted);
  if (!truth.p.is_distribution() || !truth.q.is_distribution()) {
    truth.value = std::numeric_limits<double>::quiet_NaN();
    return truth;
  }
  if (allows_offset) {
    truth.p.shared_error += std::abs(kU4 * truth.p.max + kU4 * std::log(truth.p.sum));
  }
  if (divergence.is_clamped()) {
    truth.q = {.max = 0, .sum = 1};  // logarithms of probabilities
    add_clamped_sums(logits, truth);
    return truth;
  }
  if (divergence.has_tail()) {
    truth.q = {.max = 0, .sum = 1};
    truth.tail = tail_of(truth, logits);
  }
  double of_teacher = 0;
  double of_student = 0;
  ChainBound teacher_error;
  ChainBound student_error;
  const auto add = [&](const Logs& at, bool has_gradient = true) {
    if (divergence.kind == Divergence::Kind::jsd) {
      add_summand(at.q, at.log_q - at.log_m, at.q_error, {at.q_by_m_own}, of_teacher,
                  teacher_error);
      add_summand(at.p, at.log_p - at.log_m, at.p_error, {at.p_by_m_own}, of_student,
                  student_error);
      if (!has_gradient) return;
      add_summand(at.p, at.log_p - at.log_m, at.p_error, at.p_by_m_error, truth.of_student,
                  truth.of_student_error);
      return;
    }
    if (has_teacher_side(divergence)) {
      add_summand(at.q, at.log_q - at.log_p, at.q_error, sum_of(at.q_error, at.p_error), of_teacher,
                  teacher_error);
    }
    if (has_student_side(divergence)) {
      add_summand(at.p, at.log_p - at.compared_q, at.p_error, sum_of(at.p_error, at.compared_error),
                  of_student, student_error);
    }
  };
  const auto keep_mean = [&] {
    if (divergence.kind == Divergence::Kind::jsd) return;
    truth.of_student = of_student;
    truth.of_student_error = student_error;
  };
  for (std::size_t v = 0; v < logits.student.size(); ++v) {
    if (!is_counted(v) || (divergence.has_tail() && logits.teacher[v] == -kInfinity)) continue;
    add(logs_of(truth, logits.student[v], logits.teacher[v], logits.student_errors[v],
                logits.teacher_errors[v]));
  }
  keep_mean();
  if (divergence.has_tail()) {
    Logs at = logs_of_tail(truth);
    if (truth.tail.has_gradient()) {
      if (divergence.kind == Divergence::Kind::jsd) {
        truth.tail.log_m = at.log_m;
        truth.tail.p_by_m_error = at.p_by_m_error;
      }
      add(at);
      keep_mean();
    } else {
      at.p_error = {kU4};
      add(at, false);
      const bool has_ratio = divergence.kind != Divergence::Kind::jsd;
      if (has_ratio && has_student_side(divergence)) truth.of_student -= std::exp(truth.tail.log_p);
      truth.of_student_error.fixed += kU4 * Divergence::kSmallestTail;
    }
  }
  const double beta = weight_of_teacher(divergence);
  truth.value = times(beta, of_teacher) + times(1 - beta, of_student);
  truth.value_error.add(beta, teacher_error);
  truth.value_error.add(1 - beta, student_error);
  truth.value_error.fixed +=
      kU4 * (std::abs(beta * of_teacher) + std::abs((1 - beta) * of_student));
  return truth;
}

namespace {

/// Returns a bound of the change of an element, that of an id with probability p, by a tail that is
/// found on the other side of the smallest one.
double error_of_other_side(const DivergenceTruth& truth, double p, bool is_part_of_tail) {
  const Divergence& divergence = truth.divergence;
  const double of_teacher =
      divergence.kind == Divergence::Kind::jsd ? 0 : weight_of_teacher(divergence);
  const double q = std::exp(truth.tail.log_q);
  const double q_by_p = std::exp(-truth.tail.log_ratio());
  const double own = of_teacher * q_by_p +
                     (1 - weight_of_teacher(divergence)) *
                         (1 + std::abs(truth.tail.log_ratio()) - std::log1p(-divergence.beta));
  const double shared = of_teacher * q + own * Divergence::kSmallestTail;
  return 1.001 * p * ((is_part_of_tail ? own : 0) + shared);
}

}  // namespace

DivergenceColumn divergence_column(const DivergenceTruth& truth, const Enclosure& gradient,
                                   int serial_adds, double student, double teacher,
                                   double student_error, double teacher_error) {
  const Divergence& divergence = truth.divergence;
  DivergenceColumn column;
  if (is_left_out(divergence, teacher) || student == -kInfinity) return column;
  if (divergence.is_clamped()) {
    return clamped_column(truth, gradient, serial_adds, student, teacher, student_error,
                          teacher_error);
  }
  const bool is_part_of_tail = divergence.has_tail() && teacher == -kInfinity;
  const Logs at = is_part_of_tail ? logs_of_part(truth, student, student_error)
                                  : logs_of(truth, student, teacher, student_error, teacher_error);
  const double p_error = at.p_error.at(serial_adds);
  const double q_error = at.q_error.at(serial_adds);
  const bool is_jsd = divergence.kind == Divergence::Kind::jsd;
  double direction = 0;
  double error = 0;
  double underflow = 1;  // what a probability that vanishes is multiplied by
  if (has_teacher_side(divergence) && !is_jsd) {
    const double factor = weight_of_teacher(divergence);
    const double p = truth.tail.mass * at.p;
    direction = factor * (p - at.q);
    error = factor * (p * p_error + at.p * truth.tail.mass_error.at(serial_adds) + at.q * q_error +
                      kU4 * (p + at.q));
  }
  if (has_student_side(divergence) && at.p > 0) {
    const double log_r = is_jsd ? at.log_m : at.compared_q;
    const double log_ratio = at.log_p - log_r;
    const double centred = log_ratio - truth.of_student;
    const double factor = (1 - weight_of_teacher(divergence)) * at.p;
    direction += factor * centred;
    const double of_ratio =
        is_jsd ? at.p_by_m_error.at(serial_adds) : p_error + at.compared_error.at(serial_adds);
    error +=
        factor * (p_error * std::abs(centred) + of_ratio + truth.error_of_student(serial_adds) +
                  kU4 * (std::abs(log_ratio) + std::abs(truth.of_student)));
    underflow = 1 + std::abs(at.log_p) + std::abs(log_r) + std::abs(truth.of_student);
  }
  if (divergence.has_tail() && truth.tail.straddles(serial_adds)) {
    error += error_of_other_side(truth, at.p, is_part_of_tail);
  }
  const double largest = std::max(std::abs(gradient.low), std::abs(gradient.high));
  column.want = times(gradient.value, direction);
  column.roundings = times(largest, error);
  column.floor = kVanishingF32 * std::max(1.0, largest * underflow);
  column.objective = times(gradient.radius(), std::abs(direction));
  return column;
}

}  // namespace lossgrid
