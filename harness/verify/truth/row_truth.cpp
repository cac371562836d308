// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/truth/row_truth.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/core/dtype.h"

namespace lossgrid {

double RowTruth::entropy() const {
  return std::log(sum) + spread;
}

double RowTruth::logsumexp() const {
  return max + std::log(sum);
}

double RowTruth::mean_logprob() const {
  return -mean_distance - finite_share() * std::log(sum);
}

bool RowTruth::may_change_top() const {
  double most = target_error + range_error;
  if (reads_as_float32) most += 2 * unit_roundoff(DType::f32) * std::abs(target_logit) * 1.01;
  // Kernels may read denormal numbers as zero.
  constexpr double kSmallestNormal = std::numeric_limits<float>::min();
  if (std::abs(target_logit) < 2 * kSmallestNormal) most += 2 * kSmallestNormal;
  return most > 0 && std::abs(margin) <= most;
}

bool RowTruth::may_overflow(RowTerm which) const {
  constexpr double kLargest = std::numeric_limits<float>::max();
  const double of_distances = vocab * mean_distance;
  switch (which) {
    case RowTerm::mean_logprob:
      return std::max(of_distances, -vocab * mean_logprob()) > kLargest;
    case RowTerm::mean_logit:
      return std::max(of_distances, -finite * mean_logit()) > kLargest;
    default:
      return false;
  }
}

double RowTruth::term(RowTerm which) const {
  switch (which) {
    case RowTerm::entropy:
      return entropy();
    case RowTerm::logsumexp:
      return logsumexp();
    case RowTerm::mean_logprob:
      return mean_logprob();
    case RowTerm::divergence:
      break;
    case RowTerm::vocab_min:
      return smallest;
    case RowTerm::vocab_max:
      return max;
    case RowTerm::sum_p2:
      return sum_p2();
    case RowTerm::top1:
      return is_top() ? 1 : 0;
    case RowTerm::mean_logit:
      return mean_logit();
  }
  return divergence ? divergence->value : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace lossgrid
