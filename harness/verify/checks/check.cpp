// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/checks/check.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lossgrid {
namespace {

constexpr double kLargest = std::numeric_limits<float>::max();

/// Returns error / bound, which is at most 1 exactly if the error is within the bound: 0 for an
/// infinite bound, infinite for a NaN or a missed infinity.
double error_ratio(double error, double bound, bool within) {
  if (within) return std::isinf(bound) ? 0 : error / bound;
  const double ratio = error / bound;
  return ratio > 1 ? ratio : std::numeric_limits<double>::infinity();
}

}  // namespace

void Check::note(double got, double want, double error, double bound, const ElementPlace& place) {
  const bool within = error <= bound && !std::isinf(want);  // false for a NaN
  if (!within) ++beyond_bound_;
  const double ratio = error_ratio(error, bound, within);
  if (has_worst_ && !(ratio > ratio_)) return;
  has_worst_ = true;
  ratio_ = ratio;
  error_ = error;
  bound_ = bound;
  place_ = place;
  got_ = got;
  want_ = want;
}

void Check::add_float32(double got, double want, double bound, const ElementPlace& place) {
  if (std::isinf(want)) return add(got, want, 0, place);
  if (!(std::abs(want) + bound > kLargest)) return add(got, want, bound, place);
  const auto as_float32 = [](double x) { return std::clamp(x, -kLargest, kLargest); };
  const double nearest = as_float32(want);
  const double above = as_float32(want + bound) - nearest;
  const double below = nearest - as_float32(want - bound);
  add(as_float32(got), nearest, std::max(above, below), place);
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
