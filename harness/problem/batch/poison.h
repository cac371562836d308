// SPDX-License-Identifier: Apache-2.0
// Poison: number in slots that a right implementation never reads, so that one which multiplies by
// a mask instead of selecting shows. Internal to problems.
#pragma once

#include <limits>

#include "harness/problem/case/case_spec.h"

namespace lossgrid {

/// Returns NaN or infinity, or `otherwise` for Poison::none.
inline float poison_or(Poison poison, float otherwise) {
  switch (poison) {
    case Poison::nan:
      return std::numeric_limits<float>::quiet_NaN();
    case Poison::inf:
      return std::numeric_limits<float>::infinity();
    default:
      return otherwise;
  }
}

}  // namespace lossgrid
