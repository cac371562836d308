// SPDX-License-Identifier: Apache-2.0
// The piece of the aggregation of `clipped_pg` that a wrong objective may hide; ClippedPgFormulas
// derives from it. nvcc compiles this header.
#pragma once

#include <cstdint>

#include "impls/objectives/clipped_pg/aggregation/aggregation.h"

namespace lossgrid {

struct AggregationFormulas {
  /// Share in the loss of a token of a sequence, over groups of a group, with `tokens` valid ones.
  /// On the host.
  template <typename Real>
  static Real share(const Aggregation& aggregation, const Denominators& counts,
                    std::int64_t tokens) {
    return share_of_token<Real>(aggregation, counts, tokens);
  }
};

}  // namespace lossgrid
