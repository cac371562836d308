// SPDX-License-Identifier: Apache-2.0
// `DeclaredCost`: the cost of an external implementation on one rank, predicted by its user's model
// (`cost=` of the decorator; python/PROTOCOL.md, COST).
#pragma once

#include <nlohmann/json.hpp>

#include "harness/loss/loss_implementation.h"

namespace lossgrid {

struct DeclaredCost {
  PhasePrediction forward;
  PhasePrediction backward;
};

/// Reads the answer of a launcher. Throws rank_failed for an answer that breaks the protocol.
DeclaredCost declared_cost_from(const nlohmann::json& answer);

/// Adds the prediction of a phase to `cost`: calls of collectives over tp and cp, and the peak.
void add_prediction(const PhasePrediction& predicted, PhaseCost& cost);

}  // namespace lossgrid
