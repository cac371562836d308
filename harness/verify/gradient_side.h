// SPDX-License-Identifier: Apache-2.0
// gradient_side: the interval of d loss / d logprob with which a row of a gradient is compared,
// where the formula of the objective may be on either side of a switch.
#pragma once

#include <cstdint>
#include <span>

#include "harness/verify/truth.h"

namespace lossgrid {

/// Returns the one of `sides` that lies nearest to g.
const Enclosure& nearest_side(std::span<const Enclosure> sides, double g);

/// Returns the one of `sides` (ObjectiveTruth::grad_sides) that lies nearest to the gradient `got`
/// of a row. `gradient`: of the row, of which d loss / d row terms are read. `logits`, `got`: of
/// the ids from `begin` on.
const Enclosure& gradient_side(std::span<const Enclosure> sides, const RowTruth& row,
                               const RowGradientTruth& gradient, std::int64_t begin,
                               std::span<const double> logits, std::span<const double> got);

}  // namespace lossgrid
