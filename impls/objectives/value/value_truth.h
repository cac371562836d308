// SPDX-License-Identifier: Apache-2.0
// Truth of `value`: its forward formula on a tape, independent of the steps.
#pragma once

#include <span>

#include "harness/loss/objective.h"
#include "impls/objectives/value/value_terms.h"

namespace lossgrid {

ObjectiveTruth value_truth(const ValueOptions& options, const PackedBatch& batch,
                           std::span<const TokenTruth> rows);

}  // namespace lossgrid
