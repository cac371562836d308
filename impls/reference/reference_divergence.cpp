// SPDX-License-Identifier: Apache-2.0
#include "impls/reference/reference_divergence.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace lossgrid {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

std::vector<double> log_softmax(std::vector<double> logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double x : logits) sum += std::exp(x - max);
  for (double& x : logits) x = (x - max) - std::log(sum);
  return logits;
}

/// Logarithms of the probabilities of student and teacher, [V]; with a tail [V + 1], the tail last.
struct Logarithms {
  const Divergence& by;
  std::vector<double> p;
  std::vector<double> q;
  std::vector<bool> is_sent;      // true: the teacher has sent the id
  bool tail_has_gradient = true;  // the student's tail is above the smallest tail

  Logarithms(const Divergence& divergence, std::span<const double> student,
             std::span<const double> teacher)
      : by(divergence), p(student.begin(), student.end()), q(teacher.begin(), teacher.end()) {
    for (const double logit : q) is_sent.push_back(logit != kMinusInfinity);
    for (std::size_t v = 0; by.on_support() && v < p.size(); ++v) {
      if (!is_sent[v]) p[v] = kMinusInfinity;
    }
    p = log_softmax(std::move(p));
    if (!by.takes_logprobs()) q = log_softmax(std::move(q));
    if (by.has_tail()) add_tail();
  }

  /// ln(b q_v + (1 - b) p_v)
  double mixture(std::size_t v) const {
    const double larger = std::max(p[v], q[v]);
    return larger +
           std::log(by.beta * std::exp(q[v] - larger) + (1 - by.beta) * std::exp(p[v] - larger));
  }
  /// Returns the ln q_v that is compared with p_v.
  double compared_q(std::size_t v) const {
    const bool is_floored = by.topk == Divergence::Topk::zero_outside && !is_sent[v];
    return is_floored ? Divergence::kLogOutside : q[v];
  }
  double clamped(double log) const { return std::max(log, by.log_prob_min); }
  /// True if the id counts in the sums.
  bool is_counted(std::size_t v) const { return !by.has_tail() || v + 1 == p.size() || is_sent[v]; }

 private:
  void add_tail() {
    double sent_p = 0;
    double sent_q = 0;
    double other_p = 0;
    for (std::size_t v = 0; v < p.size(); ++v) {
      (is_sent[v] ? sent_p : other_p) += std::exp(p[v]);
      if (is_sent[v]) sent_q += std::exp(q[v]);
    }
    tail_has_gradient = other_p >= Divergence::kSmallestTail;
    p.push_back(std::log(std::max(other_p, Divergence::kSmallestTail)));
    q.push_back(std::log(std::max(1 - sent_q, Divergence::kSmallestTail)));
  }
};

/// Returns sum w (ln w - ln r) over the counted ids; r(v) returns ln r_v.
template <typename R>
double relative_entropy(const Logarithms& log, const std::vector<double>& log_w, R&& r) {
  double sum = 0;
  for (std::size_t v = 0; v < log_w.size(); ++v) {
    const double w = std::exp(log_w[v]);
    if (w > 0 && log.is_counted(v)) sum += w * (log_w[v] - r(v));
  }
  return sum;
}

double clamped_divergence(const Logarithms& log) {
  double sum = 0;
  for (std::size_t v = 0; v < log.p.size(); ++v) {
    if (!log.is_sent[v]) continue;
    const double log_q = log.clamped(log.q[v]);
    const double q = std::exp(log_q);
    if (q > 0) sum += q * (log_q - log.clamped(log.p[v]));
  }
  return sum;
}

/// Weights of both sides in D.
struct SidesOfDivergence {
  double of_teacher;
  double of_student;
};

SidesOfDivergence sides_of_divergence(const Divergence& by) {
  switch (by.kind) {
    case Divergence::Kind::forward:
      return {1, 0};
    case Divergence::Kind::reverse:
      return {0, 1};
    default:
      return {by.beta, 1 - by.beta};
  }
}

/// Returns p_v d D / d p_v of the counted part, without a quotient by p, which may be 0.
double slope_by_log_p(const Logarithms& log, std::size_t v) {
  const SidesOfDivergence sides = sides_of_divergence(log.by);
  const double p = std::exp(log.p[v]);
  if (log.by.kind == Divergence::Kind::jsd) {
    return p > 0 ? sides.of_student * p * (log.p[v] - log.mixture(v)) : 0;
  }
  const double of_forward = sides.of_teacher > 0 ? -sides.of_teacher * std::exp(log.q[v]) : 0;
  const bool has_reverse = sides.of_student > 0 && p > 0;
  return of_forward + (has_reverse ? sides.of_student * p * (log.p[v] - log.compared_q(v) + 1) : 0);
}

void add_clamped_gradient(const Logarithms& log, double g, std::span<double> out) {
  double left = 0;
  const auto q_left = [&](std::size_t v) {
    const bool is_left = log.is_sent[v] && log.p[v] > log.by.log_prob_min;
    return is_left ? std::exp(log.clamped(log.q[v])) : 0.0;
  };
  for (std::size_t v = 0; v < out.size(); ++v) left += q_left(v);
  for (std::size_t v = 0; v < out.size(); ++v) {
    if (log.p[v] == kMinusInfinity) continue;
    out[v] += g * (left * std::exp(log.p[v]) - q_left(v));
  }
}

/// By the chain rule, with l_v = ln p_v: dz_v = d D / d l_v - p_v sum_u d D / d l_u. An id in the
/// tail has its share of the tail's gradient, or no gradient if the tail is clamped.
void add_tail_gradient(const Logarithms& log, double g, std::span<double> out) {
  const std::size_t tail = out.size();
  const double of_tail = log.tail_has_gradient ? slope_by_log_p(log, tail) : 0;
  std::vector<double> slopes(out.size());
  double sum = 0;
  for (std::size_t v = 0; v < out.size(); ++v) {
    slopes[v] =
        log.is_sent[v] ? slope_by_log_p(log, v) : of_tail * std::exp(log.p[v] - log.p[tail]);
    sum += slopes[v];
  }
  for (std::size_t v = 0; v < out.size(); ++v) {
    if (log.p[v] != kMinusInfinity) out[v] += g * (slopes[v] - std::exp(log.p[v]) * sum);
  }
}

}  // namespace

double plain_divergence(const Divergence& divergence, std::span<const double> student,
                        std::span<const double> teacher) {
  const Logarithms log(divergence, student, teacher);
  if (divergence.is_clamped()) return clamped_divergence(log);
  const bool is_jsd = divergence.kind == Divergence::Kind::jsd;
  const SidesOfDivergence sides = sides_of_divergence(divergence);
  double sum = 0;
  if (sides.of_teacher > 0) {
    sum += sides.of_teacher * relative_entropy(log, log.q, [&](std::size_t v) {
             return is_jsd ? log.mixture(v) : log.p[v];
           });
  }
  if (sides.of_student > 0) {
    sum += sides.of_student * relative_entropy(log, log.p, [&](std::size_t v) {
             return is_jsd ? log.mixture(v) : log.compared_q(v);
           });
  }
  return sum;
}

void add_plain_divergence_gradient(const Divergence& divergence, std::span<const double> student,
                                   std::span<const double> teacher, double g,
                                   std::span<double> out) {
  const Logarithms log(divergence, student, teacher);
  if (divergence.is_clamped()) return add_clamped_gradient(log, g, out);
  if (divergence.has_tail()) return add_tail_gradient(log, g, out);
  const bool is_jsd = divergence.kind == Divergence::Kind::jsd;
  const SidesOfDivergence sides = sides_of_divergence(divergence);
  const auto log_r = [&](std::size_t v) { return is_jsd ? log.mixture(v) : log.compared_q(v); };
  const double mean = sides.of_student > 0 ? relative_entropy(log, log.p, log_r) : 0;
  for (std::size_t v = 0; v < out.size(); ++v) {
    if (student[v] == kMinusInfinity) continue;  // no logit to change
    const double p = std::exp(log.p[v]);
    if (!is_jsd && sides.of_teacher > 0) {
      out[v] += sides.of_teacher * g * (p - std::exp(log.q[v]));
    }
    if (sides.of_student > 0 && p > 0) {
      out[v] += sides.of_student * g * p * (log.p[v] - log_r(v) - mean);
    }
  }
}

}  // namespace lossgrid
