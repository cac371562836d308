// SPDX-License-Identifier: Apache-2.0
// ClippedPgTotals: the totals of step 3 of `clipped_pg` over valid tokens, sums and maxima. nvcc
// compiles this header.
#pragma once

#include <array>
#include <limits>

#include "harness/loss/objective_tokens.h"

namespace lossgrid {

struct ClippedPgTotals {
  enum Sum {
    kTokens,
    kActor,  // with the tokens' shares in the loss, as kKl
    kKl,
    kPositiveNll,
    kRatio,
    kRatioClamped,
    kMultProbError,
    kGenKl,
    kPolicyKl,
    kJsDivergence,
    kApproxEntropy,
    kEntropy,  // with the tokens' shares in the loss
    kWeight,
    kOutOfBounds,
    kRejected,
    kSelected,
    kSums,
  };
  enum Maximum { kMaxRatio, kMaxMinusRatio, kMaxRatioClamped, kMaxMinusRatioClamped, kMaxima };

  std::array<double, kSums> sums{};
  std::array<double, kMaxima> maxima{-kInfinity, -kInfinity, -kInfinity, -kInfinity};

  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  /// Adds these to `totals` of the same sizes.
  void add_to(ObjectiveTotals<double> totals) const;
};

}  // namespace lossgrid
