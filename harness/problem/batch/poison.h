// SPDX-License-Identifier: Apache-2.0
// Internal to problems: the number in slots that a right implementation never reads, so that one
// which multiplies by a mask instead of selecting shows.
#pragma once

#include <limits>

#include "harness/problem/case/case_spec.h"

namespace lossgrid {

/// NaN or infinity as `poison` says; `otherwise` where nothing is poisoned.
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
