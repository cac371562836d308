// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/check.h"

#include <cmath>
#include <limits>

namespace lossgrid {

void Check::note(double got, double want, double error, double bound, const ElementPlace& place) {
  const bool within = error <= bound;  // false for a NaN
  if (!within) ++beyond_bound_;
  const double ratio = std::isnan(error) ? std::numeric_limits<double>::infinity() : error / bound;
  if (has_worst_ && !(ratio > ratio_)) return;
  has_worst_ = true;
  ratio_ = ratio;
  error_ = error;
  bound_ = bound;
  place_ = place;
  got_ = got;
  want_ = want;
}

void Check::merge(const Check& other) {
  compared_ += other.compared_;
  beyond_bound_ += other.beyond_bound_;
  if (!other.has_worst_ || (has_worst_ && !(other.ratio_ > ratio_))) return;
  const std::int64_t compared = compared_;
  const std::int64_t beyond = beyond_bound_;
  *this = other;
  compared_ = compared;
  beyond_bound_ = beyond;
}

}  // namespace lossgrid
