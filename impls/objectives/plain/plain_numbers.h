// SPDX-License-Identifier: Apache-2.0
// Numbers of a second judge: sums and means over the valid tokens of a case, losses and metrics.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "impls/objectives/plain/plain_case.h"

namespace lossgrid::plain {

/// Metrics by name; nothing for one without elements.
using Numbers = std::map<std::string, std::optional<double>>;

struct LossAndMetrics {
  double loss = 0;
  Numbers metrics = {};
};

inline double sum_of(const std::vector<double>& terms) {
  double sum = 0;
  for (const double term : terms) sum += term;
  return sum;
}

/// Returns f(k) of every valid token.
template <class F>
std::vector<double> by_token(const Case& of, const F& f) {
  std::vector<double> out;
  for (std::size_t k = 0; k < of.tokens.size(); ++k) out.push_back(f(k));
  return out;
}

/// Returns the mean over the valid tokens of the global batch; nothing without any.
template <class F>
std::optional<double> token_mean(const Case& of, const F& f) {
  if (of.tokens.empty()) return std::nullopt;
  return sum_of(by_token(of, f)) / of.valid_tokens();
}

inline double weighted(const std::vector<double>& weights, const std::vector<double>& terms) {
  double sum = 0;
  for (std::size_t k = 0; k < terms.size(); ++k) sum += weights[k] * terms[k];
  return sum;
}

}  // namespace lossgrid::plain
