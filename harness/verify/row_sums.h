// SPDX-License-Identifier: Apache-2.0
// Sums over the ids of one row that the truth is made of, in float64, for all instruction sets
// (Google Highway): the plain formulas, eight ids at a time. exp is Highway's, at most 1 ULP off.
#pragma once

#include <limits>
#include <span>

namespace lossgrid {

struct SoftmaxSums {
  double exponentials = 0;                                    // sum exp(x - m)
  double weighted = 0;                                        // sum exp(x - m) (m - x)
  double squared = 0;                                         // sum exp(x - m) (m - x)^2
  double smallest = std::numeric_limits<double>::infinity();  // x that is not -inf

  void add(const SoftmaxSums& other);
};

/// The largest of `logits`, -inf for none.
double largest_logit(std::span<const double> logits);

/// Relative to `max`, which no logit exceeds. -inf adds nothing.
SoftmaxSums softmax_sums(std::span<const double> logits, double max);

/// p[k] = exp(logits[k] - max) / sum. `p` may be `logits`.
void softmax_probabilities(std::span<const double> logits, double max, double sum,
                           std::span<double> p);

}  // namespace lossgrid
