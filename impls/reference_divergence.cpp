// SPDX-License-Identifier: Apache-2.0
#include "impls/reference_divergence.h"

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

/// Logarithms of the probabilities of both, [V].
struct Logarithms {
  std::vector<double> p;
  std::vector<double> q;

  Logarithms(const Divergence& divergence, std::span<const double> student,
             std::span<const double> teacher)
      : p(student.begin(), student.end()), q(teacher.begin(), teacher.end()) {
    for (std::size_t v = 0; divergence.on_support && v < p.size(); ++v) {
      if (q[v] == kMinusInfinity) p[v] = kMinusInfinity;
    }
    p = log_softmax(std::move(p));
    q = log_softmax(std::move(q));
  }

  /// ln(b q_v + (1 - b) p_v)
  double mixture(double b, std::size_t v) const {
    const double larger = std::max(p[v], q[v]);
    return larger + std::log(b * std::exp(q[v] - larger) + (1 - b) * std::exp(p[v] - larger));
  }
};

/// sum w (ln w - ln r); r(v) returns ln r_v.
template <typename R>
double relative_entropy(const std::vector<double>& log_w, R&& r) {
  double sum = 0;
  for (std::size_t v = 0; v < log_w.size(); ++v) {
    const double w = std::exp(log_w[v]);
    if (w > 0) sum += w * (log_w[v] - r(v));
  }
  return sum;
}

}  // namespace

double plain_divergence(const Divergence& divergence, std::span<const double> student,
                        std::span<const double> teacher) {
  const Logarithms log(divergence, student, teacher);
  const double b = divergence.beta;
  const auto of_p = [&](std::size_t v) { return log.p[v]; };
  const auto of_q = [&](std::size_t v) { return log.q[v]; };
  const auto of_m = [&](std::size_t v) { return log.mixture(b, v); };
  switch (divergence.kind) {
    case Divergence::Kind::forward:
      return relative_entropy(log.q, of_p);
    case Divergence::Kind::reverse:
      return relative_entropy(log.p, of_q);
    default:
      return b * relative_entropy(log.q, of_m) + (1 - b) * relative_entropy(log.p, of_m);
  }
}

void add_plain_divergence_gradient(const Divergence& divergence, std::span<const double> student,
                                   std::span<const double> teacher, double g,
                                   std::span<double> out) {
  const Logarithms log(divergence, student, teacher);
  const bool is_jsd = divergence.kind == Divergence::Kind::jsd;
  const auto log_r = [&](std::size_t v) {
    return is_jsd ? log.mixture(divergence.beta, v) : log.q[v];
  };
  const bool is_forward = divergence.kind == Divergence::Kind::forward;
  const double mean = is_forward ? 0 : relative_entropy(log.p, log_r);
  const double factor = is_jsd ? (1 - divergence.beta) * g : g;
  for (std::size_t v = 0; v < out.size(); ++v) {
    const double p = std::exp(log.p[v]);
    if (is_forward) {
      const bool is_outside = student[v] == kMinusInfinity;  // no logit to change
      out[v] += is_outside ? 0 : g * (p - std::exp(log.q[v]));
    } else if (p > 0) {
      out[v] += factor * p * (log.p[v] - log_r(v) - mean);
    }
  }
}

}  // namespace lossgrid
