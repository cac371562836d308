// SPDX-License-Identifier: Apache-2.0
// The cost model of an external implementation: what its user wrote down that it should need on one
// rank (`cost=` of the decorator; python/PROTOCOL.md, COST).
#pragma once

#include <nlohmann/json.hpp>

#include "harness/loss/loss_implementation.h"

namespace lossgrid {

struct DeclaredCost {
  PhasePrediction forward;
  PhasePrediction backward;
};

/// From the answer of a launcher. Throws rank_failed for one that is not of the protocol.
DeclaredCost declared_cost_from(const nlohmann::json& answer);

/// Adds what is predicted of a phase to `cost`: calls over tp and cp, of operations of
/// communicators, and the peak.
void add_prediction(const PhasePrediction& predicted, PhaseCost& cost);

}  // namespace lossgrid
