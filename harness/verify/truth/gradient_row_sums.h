// SPDX-License-Identifier: Apache-2.0
// GradientRowSums: one row of the gradient of hidden states or of the LM head's weight, and what
// its bounds are made of, while they are added up.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "harness/core/dtype.h"
#include "harness/verify/truth/linear_truth.h"

namespace lossgrid {

/// Adds dz x to all sums: the inner loop of the truth, V H times for every row. It is no member of
/// a class, whose members the pointers might alias, so that the compiler vectorises it.
inline void add_products(double dz, double tau, const float* __restrict factor, std::int64_t size,
                         double* __restrict want, double* __restrict squares,
                         double* __restrict magnitude, double* __restrict radius) {
  for (std::int64_t k = 0; k < size; ++k) {
    const double x = factor[k];
    const double product = dz * x;
    want[k] += product;
    squares[k] += product * product;
    magnitude[k] += std::abs(product);
    radius[k] += tau * std::abs(x);
  }
}

/// Squared changes by roundings of logits in one row [H] of a gradient: sum r (f - centre)^2 over
/// the factors f, for a centre that is known at the end.
class RoundingSums {
 public:
  explicit RoundingSums(std::size_t size) : squares_(size), products_(size) {}

  bool empty() const { return squares_.empty(); }

  void add(double rounding, const float* factor) {
    total_ += rounding;
    for (std::size_t k = 0; k < squares_.size(); ++k) {
      const double x = factor[k];
      products_[k] += rounding * x;
      squares_[k] += rounding * x * x;
    }
  }

  /// Adds the squares of along (f - mean) + across: changes of which the centre is known.
  void add_change(double along, const float* factor, std::span<const double> mean, double across,
                  std::span<const double> other) {
    for (std::size_t k = 0; k < squares_.size(); ++k) {
      const double change = along * (factor[k] - mean[k]) + across * other[k];
      squares_[k] += change * change;
    }
  }

  double root(std::size_t k, double centre) const {
    const double sum = squares_[k] - centre * (2 * products_[k] - centre * total_);
    return std::sqrt(std::max(0.0, sum));
  }

 private:
  std::vector<double> squares_;
  std::vector<double> products_;
  double total_ = 0;
};

/// Sums of one row [H] of a gradient while it is added up, in memory that stays in the cache.
class GradientRowSums {
 public:
  GradientRowSums(std::int64_t size, const LinearRows& rows)
      : want_(static_cast<std::size_t>(size)),
        squares_(want_),
        magnitude_(want_),
        radius_(want_),
        rounded_(rows.rounded.empty() ? 0 : want_.size()),
        roundings_(rows.logit_rounding.empty() ? 0 : want_.size()) {}

  /// Adds the products with `factor` [H].
  void add(double dz, double tau, const float* factor) {
    add_products(dz, tau, factor, static_cast<std::int64_t>(want_.size()), want_.data(),
                 squares_.data(), magnitude_.data(), radius_.data());
    if (dz != 0) vanishing_ += std::numeric_limits<float>::min();
    const double rounded = round_to(DType::bf16, dz);
    for (std::size_t k = 0; k < rounded_.size(); ++k) rounded_[k] += rounded * factor[k];
  }
  RoundingSums& roundings() { return roundings_; }

  /// Writes row `row`. `centre` returns the mean of the factors for RoundingSums::root.
  template <typename Centre>
  void write(double temperature, std::size_t row, LinearRows& rows, Centre&& centre) const {
    const std::size_t at = row * want_.size();
    for (std::size_t k = 0; k < want_.size(); ++k) {
      rows.want[at + k] = want_[k] / temperature;
      rows.spread[at + k] = std::sqrt(squares_[k]) / temperature;
      rows.magnitude[at + k] = magnitude_[k] / temperature;
      rows.radius[at + k] = (radius_[k] + vanishing_) / temperature;
    }
    for (std::size_t k = 0; k < rounded_.size(); ++k) {
      rows.rounded[at + k] = rounded_[k] / temperature;
    }
    for (std::size_t k = 0; !roundings_.empty() && k < want_.size(); ++k) {
      rows.logit_rounding[at + k] = roundings_.root(k, centre(k, want_[k])) / temperature;
    }
  }

 private:
  std::vector<double> want_;
  std::vector<double> squares_;
  std::vector<double> magnitude_;
  std::vector<double> radius_;
  std::vector<double> rounded_;
  RoundingSums roundings_;
  double vanishing_ = 0;  // of products below the smallest normal float32
};

}  // namespace lossgrid
