// SPDX-License-Identifier: Apache-2.0
// k3_root: where the third estimator of the KL divergence (J. Schulman, "Approximating KL
// Divergence", 2020), e^r - 1 - r, meets a bound.
#pragma once

#include <cmath>

namespace lossgrid {

/// Returns r of the given sign where k3 is `bound` > 0, by Newton's method, which converges from
/// any r of that sign: k3 is convex.
inline double k3_root(double bound, double sign) {
  double r = sign > 0 ? std::log1p(bound) : -(bound + 1);
  for (int step = 0; step < 60; ++step) {
    const double slope = std::expm1(r);
    r -= (slope - r - bound) / slope;
  }
  return r;
}

}  // namespace lossgrid
