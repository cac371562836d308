// SPDX-License-Identifier: Apache-2.0
// ClippedPgFormulas: the pieces of the formulas of `clipped_pg`, by part, for the processor and for
// GPUs. A wrong objective is a struct that derives from it and hides one piece.
#pragma once

#include "impls/objectives/clipped_pg/aggregation/aggregation_formulas.h"
#include "impls/objectives/clipped_pg/kl/kl_formulas.h"
#include "impls/objectives/clipped_pg/policy/policy_losses.h"
#include "impls/objectives/clipped_pg/ratio/ratio_formulas.h"
#include "impls/objectives/clipped_pg/rejection/rejection_formulas.h"
#include "impls/objectives/clipped_pg/selection/clipped_pg_selection.h"
#include "impls/objectives/clipped_pg/weights/weight_formulas.h"

namespace lossgrid {

struct ClippedPgFormulas : AggregationFormulas,
                           RatioFormulas,
                           PolicyLossFormulas,
                           WeightFormulas,
                           RejectionFormulas,
                           KlFormulas,
                           SelectionFormulas {};

}  // namespace lossgrid
