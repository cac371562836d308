// SPDX-License-Identifier: Apache-2.0
// The divergence of one row from its teacher's and its gradient in float64, as the formulas of
// row_terms.h and divergence_rows.h state them, with bounds for kernels that compute in float32: as
// term_rows_truth.h.
#pragma once

#include <utility>
#include <vector>

#include "harness/problem/batch/row_terms.h"
#include "term_rows_truth.h"

namespace lossgrid {

/// A number and a bound of its error.
struct Bounded {
  double value = 0;
  double bound = 0;

  Bounded& operator+=(const Bounded& other) {
    value += other.value;
    bound += other.bound;
    return *this;
  }
};

/// A row of the whole vocabulary. With a divergence on the support the student's logits are -inf
/// outside.
struct DivergedRowTruth {
  Divergence by;
  TermRowTruth student;
  TermRowTruth teacher;

  DivergedRowTruth(const Divergence& divergence, TermRowTruth of_student, TermRowTruth of_teacher)
      : by(divergence), student(std::move(of_student)), teacher(std::move(of_teacher)) {
    for (std::size_t v = 0; v < student.z.size(); ++v) {
      ps_.push_back(student.p(v));
      qs_.push_back(teacher.p(v));
      log_ps_.push_back(student.log_p(v));
      log_qs_.push_back(teacher.log_p(v));
      if (is_floored(v)) log_qs_[v] = Divergence::kLogOutside;
    }
  }

  double p(std::size_t v) const { return ps_[v]; }
  double q(std::size_t v) const { return qs_[v]; }

  /// Returns q ln(q / r), r = p or m; of a clamped one q' (ln q' - ln p), both clamped.
  double of_teacher(std::size_t v) const {
    if (by.is_clamped()) return is_sent(v) ? clamped_q(v) * clamped_log_ratio(v) : 0;
    if (by.kind == Divergence::Kind::reverse || q(v) == 0) return 0;
    if (by.kind == Divergence::Kind::jsd) return q(v) * std::log(q(v) / m(v));
    return q(v) * -log_ratio(v);
  }
  /// Returns p ln(p / r), r = q or m; of a clamped one q' where ln p is above the clamp.
  double of_student(std::size_t v) const {
    if (by.is_clamped()) return is_sent(v) && log_ps_[v] > by.log_prob_min ? clamped_q(v) : 0;
    if (by.kind == Divergence::Kind::forward || p(v) == 0) return 0;
    return p(v) * log_of_student(v);
  }
  /// Returns D from both sums.
  double merged(double sum_of_teacher, double sum_of_student) const {
    if (by.is_clamped()) return sum_of_teacher;
    return has_one_side() ? sum_of_teacher + sum_of_student
                          : by.beta * sum_of_teacher + (1 - by.beta) * sum_of_student;
  }
  double sum_of_student() const {
    double sum = 0;
    for (std::size_t v = 0; v < student.z.size(); ++v) sum += of_student(v);
    return sum;
  }
  double value() const {
    double sum = 0;
    for (std::size_t v = 0; v < student.z.size(); ++v) sum += of_teacher(v);
    return merged(sum, sum_of_student());
  }

  /// Returns the summand of the teacher, of finite logarithms.
  Bounded bounded_of_teacher(std::size_t v) const {
    const double summand = of_teacher(v);
    if (by.is_clamped()) return {summand, is_sent(v) ? of_clamped_teacher(v) : 0};
    if (by.kind == Divergence::Kind::reverse || q(v) == 0) return {summand, 0};
    return {summand, std::abs(summand) * (of_q(v) + 4 * kRoundoff) + q(v) * of_log(v) + lost(v)};
  }
  Bounded bounded_of_student(std::size_t v) const {
    const double summand = of_student(v);
    if (by.is_clamped()) return {summand, is_sent(v) ? of_clamped_student(v) : 0};
    if (by.kind == Divergence::Kind::forward || p(v) == 0) return {summand, 0};
    return {summand, std::abs(summand) * (of_p(v) + 4 * kRoundoff) + p(v) * of_log(v) + lost(v)};
  }

  /// Returns d D / d x_v times `weight`, R = sum_of_student(). `u_out`: of the tensor.
  Bounded gradient(std::size_t v, double weight, double r, double u_out) const {
    if (student.z[v] == kMinusInfinity) return {};
    Bounded by_z{0, kLeastNormal};
    if (by.is_clamped()) {
      by_z += {r * p(v) - of_student(v), r * p(v) * (of_p(v) + 5 * kRoundoff) +
                                             (is_sent(v) ? of_clamped_student(v) : 0) +
                                             2 * kRoundoff * of_student(v) + 4 * kLeastNormal};
    } else if (by.kind != Divergence::Kind::reverse && by.kind != Divergence::Kind::jsd) {
      const double scale = has_one_side() ? 1 : by.beta;
      by_z += {scale * (p(v) - q(v)),
               scale * (p(v) * (of_p(v) + 4 * kRoundoff) + q(v) * (of_q(v) + 4 * kRoundoff))};
    }
    if (by.kind != Divergence::Kind::forward && p(v) != 0) {  // no clamped one
      const double difference = log_of_student(v) - r;
      const double scale = has_one_side() ? 1 : 1 - by.beta;
      const double of_difference = of_log(v) + kRoundoff * (std::abs(r) + std::abs(difference));
      by_z += {scale * p(v) * difference,
               scale * (p(v) * std::abs(difference) * (of_p(v) + 5 * kRoundoff) +
                        p(v) * of_difference + lost(v) + kLeastNormal * std::abs(r))};
    }
    by_z.value *= weight;
    by_z.bound *= std::abs(weight);
    const double exact = student.slope(v) * by_z.value;
    const double factor = std::abs(student.transform.factor);
    double bound = factor * by_z.bound + 5 * kRoundoff * std::abs(exact);
    if (student.transform.limit != 0) {  // of 1 - w^2
      bound += factor * std::abs(by_z.value) * 2 * (student.of_z + kRoundoff);
    }
    return {exact, u_out * std::abs(exact) + bound * (1 + u_out) + kLeastNormal};
  }

 private:
  bool has_one_side() const {
    return by.kind == Divergence::Kind::forward || by.kind == Divergence::Kind::reverse;
  }
  /// True if the teacher's ln q is a number though q is 0.
  bool is_floored(std::size_t v) const {
    return by.topk == Divergence::Topk::zero_outside && teacher.z[v] == kMinusInfinity;
  }
  bool is_sent(std::size_t v) const { return teacher.z[v] != kMinusInfinity; }
  double clamped(double log) const { return std::max(log, by.log_prob_min); }
  double clamped_q(std::size_t v) const { return std::exp(clamped(log_qs_[v])); }
  double clamped_log_ratio(std::size_t v) const {
    return clamped(log_qs_[v]) - clamped(log_ps_[v]);
  }
  /// Returns a bound of the error of ln p.
  double of_log_p(std::size_t v) const {
    if (student.z[v] == kMinusInfinity) return 0;
    return of_distance(student, v) +
           kRoundoff * (2 * distance(student, v) + 2 * student.log_sum() + 4);
  }
  /// Returns a bound of the error of ln q, which a teacher in float64 has as float32.
  double of_log_q(std::size_t v) const {
    return of_distance(teacher, v) + 2 * kRoundoff * std::abs(teacher.z[v]);
  }
  double of_clamped_teacher(std::size_t v) const {
    const double ratio = std::abs(clamped_log_ratio(v));
    const double size = std::abs(clamped(log_qs_[v])) + std::abs(clamped(log_ps_[v]));
    return clamped_q(v) * ((of_log_q(v) + 16 * kRoundoff) * ratio + of_log_q(v) + of_log_p(v) +
                           kRoundoff * size) +
           kLeastNormal * (2 + ratio);
  }
  double of_clamped_student(std::size_t v) const {
    const bool is_at_clamp = std::abs(log_ps_[v] - by.log_prob_min) <= of_log_p(v);
    return clamped_q(v) * (of_log_q(v) + 16 * kRoundoff) + kLeastNormal +
           (is_at_clamp ? clamped_q(v) : 0);
  }
  double m(std::size_t v) const { return by.beta * q(v) + (1 - by.beta) * p(v); }
  double log_ratio(std::size_t v) const { return log_ps_[v] - log_qs_[v]; }
  /// Returns ln(p / r), r = q or m, where p is not 0.
  double log_of_student(std::size_t v) const {
    return by.kind == Divergence::Kind::jsd ? std::log(p(v) / m(v)) : log_ratio(v);
  }

  /// Returns a bound of the error of z - shift.
  static double of_distance(const TermRowTruth& row, std::size_t v) {
    if (row.z[v] == kMinusInfinity) return 0;
    return row.of_z * (std::abs(row.z[v]) + std::abs(row.max)) +
           kRoundoff * (distance(row, v) + kRoundoff * std::abs(row.max));
  }
  static double distance(const TermRowTruth& row, std::size_t v) { return row.max - row.z[v]; }
  /// Return bounds of the relative errors of p and q: of the distance, its exponential and the sum.
  double of_p(std::size_t v) const { return of_probability(student, v); }
  double of_q(std::size_t v) const { return of_probability(teacher, v); }
  static double of_probability(const TermRowTruth& row, std::size_t v) {
    if (row.z[v] == kMinusInfinity) return 0;
    return of_distance(row, v) + kRoundoff * (12 + 2 * distance(row, v));
  }

  /// Returns a bound of the error of ln(p / q), or of ln(p / m) and of ln(q / m).
  double of_log(std::size_t v) const {
    const bool both = student.z[v] != kMinusInfinity && teacher.z[v] != kMinusInfinity;
    double bound = 0;
    double size = 0;
    if (both) {
      size = std::abs(log_ratio(v));
      const double difference = std::abs(distance(student, v) - distance(teacher, v));
      const double constant = std::abs(student.log_sum() - teacher.log_sum());
      bound = of_distance(student, v) + of_distance(teacher, v) +
              kRoundoff * (difference + size + 4 + 2 * constant);
    } else if (is_floored(v) && student.z[v] != kMinusInfinity) {
      size = std::abs(log_ratio(v));
      bound = of_distance(student, v) +
              kRoundoff * (distance(student, v) + size + 4 + 2 * std::abs(student.log_sum()) + 100);
    }
    if (by.kind != Divergence::Kind::jsd) return bound;
    // Exponential less 1 or exponential (4 ULP each), product, logarithm (4 ULP), quotient and the
    // sum. What is off in the argument counts twice at most, since it is at least 1/2 or the
    // logarithm is larger.
    const double log = -std::log(std::min(by.beta, 1 - by.beta));
    return 2 * bound + kRoundoff * (32 * std::min(log, size) + 2 * size);
  }
  /// Returns a bound of summands of probabilities that count as 0.
  double lost(std::size_t v) const {
    const bool both = student.z[v] != kMinusInfinity && log_qs_[v] != kMinusInfinity;
    return kLeastNormal * (2 + (both ? std::abs(log_ratio(v)) : 0) + 40);
  }

  std::vector<double> ps_;
  std::vector<double> qs_;
  std::vector<double> log_ps_;
  std::vector<double> log_qs_;
};

}  // namespace lossgrid
