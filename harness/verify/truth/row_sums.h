// SPDX-License-Identifier: Apache-2.0
// Sums of the truth over the ids of one row, in float64, for all instruction sets (Google Highway):
// the plain formulas, eight ids at a time. exp is Highway's, at most 1 ULP off.
#pragma once

#include <limits>
#include <span>

namespace lossgrid {

/// Scale of a sum of distances, which is finite for all float64 logits.
inline constexpr double kDistanceScale = 0x1p-40;

struct SoftmaxSums {
  double exponentials = 0;                                    // sum exp(x - m)
  double weighted = 0;                                        // sum exp(x - m) (m - x)
  double squared = 0;                                         // sum exp(x - m) (m - x)^2
  double squares = 0;                                         // sum exp(x - m)^2
  double distances = 0;                                       // kDistanceScale sum (m - x)
  double finite = 0;                                          // number of x that are not -inf
  double smallest = std::numeric_limits<double>::infinity();  // x that is not -inf

  void add(const SoftmaxSums& other);
};

/// Returns the largest of `logits`, -inf for none.
double largest_logit(std::span<const double> logits);

/// Returns the sums relative to `max`, which no logit exceeds. -inf adds nothing.
SoftmaxSums softmax_sums(std::span<const double> logits, double max);

/// Sets p[k] = exp(logits[k] - max) / sum. `p` may be `logits`.
void softmax_probabilities(std::span<const double> logits, double max, double sum,
                           std::span<double> p);

}  // namespace lossgrid
