// SPDX-License-Identifier: Apache-2.0
// Numbers of preference pairs, plainly from docs/objectives.md ("Objectives of pairs"): sequences 2
// j are chosen, 2 j + 1 rejected.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "impls/objectives/plain/plain_case.h"
#include "impls/objectives/plain/plain_numbers.h"

namespace lossgrid::plain {

inline double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
inline double log_sigmoid(double x) {
  return x > 0 ? -std::log1p(std::exp(-x)) : x - std::log1p(std::exp(x));
}
inline double smoothed(double u, double e) {
  return -(1 - e) * log_sigmoid(u) - e * log_sigmoid(-u);
}

/// Returns the sum over the valid tokens of sequence i of f(token, its place among them).
template <class F>
double over_sequence(const Case& of, std::int64_t i, const F& f) {
  double sum = 0;
  int place = 0;
  for (std::size_t k = 0; k < of.tokens.size(); ++k) {
    if (of.tokens[k].sequence == i) sum += f(k, place++);
  }
  return sum;
}

inline double tokens_or_one(const Case& of, std::int64_t i) {
  return std::max(1.0, of.trained[i]);
}

/// Returns the pairs that count, by their first sequence, and the number that means divide by.
inline std::vector<std::int64_t> counted_pairs(const Case& of) {
  std::vector<std::int64_t> pairs;
  for (std::int64_t i = 0; i + 1 < of.sequences; i += 2) {
    if (of.problem.sample_mask[i] == 1 && of.problem.sample_mask[i + 1] == 1) pairs.push_back(i);
  }
  return pairs;
}

/// Returns the negative log-likelihood of a sequence, by token or as a sum.
inline double sft_of(const Case& of, const Rows& live, std::int64_t i, bool by_token) {
  const double sum = -over_sequence(of, i, [&](std::size_t k, int) { return live[k].x; });
  return by_token ? sum / tokens_or_one(of, i) : sum;
}

}  // namespace lossgrid::plain
