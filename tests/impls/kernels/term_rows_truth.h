// SPDX-License-Identifier: Apache-2.0
// The numbers of one row of logits and their gradient in float64, as the formulas of
// row_transform.h, row_terms.h and row_gradient.h state them, with bounds for kernels that compute
// in float32: each operation is off by u32 of its result, and what follows carries it on.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "harness/problem/values/row_transform.h"
#include "impls/kernels/rows.h"

namespace lossgrid {

inline constexpr double kRoundoff = 0x1p-24;
inline constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();
// Exponentials below the smallest normal number may count as 0.
inline constexpr double kLeastNormal = 1.2e-38;

/// d loss / d numbers of one row.
struct TermWeights {
  double logprob = 0;
  double entropy = 0;
  double logsumexp = 0;
  double mean_logprob = 0;
};

inline double transformed(double x, const RowTransform& by) {
  if (x == kMinusInfinity) return x;
  return by.limit == 0 ? by.factor * x : by.limit * std::tanh(by.factor * x / by.limit);
}

/// Returns a bound of the relative error of transformed logits for operations that are off by
/// `unit`: one product, or two, a tanh of 5 ULP and a product.
inline double transform_error(const RowTransform& by, double unit) {
  if (by.limit == 0) return by.factor == 1 ? 0 : unit;
  return 14 * unit;
}

/// A row of the whole vocabulary.
struct TermRowTruth {
  std::vector<double> x;
  std::vector<bool> kept;
  std::vector<double> z;  // -inf outside of the kept set
  RowTransform transform;
  double of_z;  // relative error of z
  double max = kMinusInfinity;
  double sum = 0;       // of exp(z - max)
  double weighted = 0;  // of exp(z - max) (z - max)
  double finite = 0;

  /// `unit`: of the arithmetic that transforms logits.
  TermRowTruth(std::vector<double> logits, std::vector<bool> kept_columns, const RowTransform& by,
               double unit)
      : x(std::move(logits)),
        kept(std::move(kept_columns)),
        transform(by),
        of_z(transform_error(by, unit)) {
    for (std::size_t v = 0; v < x.size(); ++v) {
      z.push_back(kept[v] ? transformed(x[v], by) : kMinusInfinity);
      max = std::max(max, z.back());
    }
    for (const double logit : z) {
      if (logit == kMinusInfinity) continue;
      const double e = std::exp(logit - max);
      sum += e;
      weighted += e * (logit - max);
      ++finite;
    }
  }

  TermRowTruth(const std::vector<double>& logits, const RowTransform& by, double unit)
      : TermRowTruth(logits, std::vector<bool>(logits.size(), true), by, unit) {}

  double vocab() const { return static_cast<double>(x.size()); }
  double log_sum() const { return std::log(sum); }
  double entropy() const { return log_sum() - weighted / sum; }
  double log_p(std::size_t v) const { return z[v] - max - log_sum(); }
  double mean_logprob() const {
    double total = 0;
    for (std::size_t v = 0; v < z.size(); ++v) total += z[v] == kMinusInfinity ? 0 : log_p(v);
    return total / vocab();
  }

  double loss(std::size_t target, const TermWeights& by) const {
    return by.logprob * log_p(target) + by.entropy * entropy() + by.logsumexp * (max + log_sum()) +
           by.mean_logprob * mean_logprob();
  }

  double slope(std::size_t v) const {
    if (transform.limit == 0) return transform.factor;
    const double w = std::tanh(transform.factor * x[v] / transform.limit);
    return transform.factor * (1 - w * w);
  }

  double p(std::size_t v) const { return std::exp(z[v] - max) / sum; }

  /// Returns d loss / d z_v.
  double gradient_by_z(std::size_t v, std::size_t target, const TermWeights& by) const {
    const bool is_possible = z[v] != kMinusInfinity;
    if (!is_possible && v != target) return 0;
    const double p_log_p = p(v) == 0 ? 0 : p(v) * log_p(v);
    const double of_entropy = -(p_log_p + p(v) * entropy());
    const double of_mean = ((is_possible ? 1 : 0) - finite * p(v)) / vocab();
    return by.logprob * ((v == target ? 1 : 0) - p(v)) + by.entropy * of_entropy +
           by.logsumexp * p(v) + by.mean_logprob * of_mean;
  }
  /// Returns d loss / d x_v.
  double gradient(std::size_t v, std::size_t target, const TermWeights& by) const {
    return slope(v) * gradient_by_z(v, target, by);
  }

  /// Returns a bound of the gradient's error, for statistics that are right but for their rounding.
  double gradient_bound(std::size_t v, std::size_t target, const TermWeights& by,
                        double u_out) const {
    if (z[v] == kMinusInfinity && v != target) return 0;
    const bool is_target = v == target;
    const double distance = std::min(max - z[v], 120.0);  // exponentials are 0 beyond
    const double of_distance =
        of_z * (std::min(std::abs(z[v]), std::abs(max) + 120) + std::abs(max)) +
        kRoundoff * distance;
    const double of_p = of_distance + kRoundoff * (12 + 2 * distance);
    const double size_of_log_p = distance + log_sum();
    const double of_log_p = of_distance + kRoundoff * (2 * size_of_log_p + 2);
    const double of_entropy = kRoundoff * (4 + 3 * log_sum() + 5 * std::abs(weighted / sum));
    const double constant = std::abs(by.mean_logprob) / vocab();
    // The factors of p.
    const double sizes = (is_target ? 0 : std::abs(by.logprob)) + std::abs(by.logsumexp) +
                         std::abs(by.entropy) * (entropy() + size_of_log_p) + constant * finite;
    double by_z =
        p(v) * (sizes * (of_p + 6 * kRoundoff) + std::abs(by.entropy) * (of_entropy + of_log_p)) +
        3 * kRoundoff * constant + kLeastNormal * (1 + sizes);
    if (is_target) {
      by_z += std::abs(by.logprob) * (p(v) * of_p + 3 * kRoundoff);
    }
    const double factor = std::abs(transform.factor);
    const double exact_by_z = std::abs(gradient_by_z(v, target, by));
    const double exact = std::abs(gradient(v, target, by));
    double bound = factor * by_z + 4 * kRoundoff * exact;
    if (transform.limit != 0) bound += factor * exact_by_z * 2 * (of_z + kRoundoff);  // of 1 - w^2
    return u_out * exact + bound * (1 + u_out) + kLeastNormal;
  }
};

}  // namespace lossgrid
