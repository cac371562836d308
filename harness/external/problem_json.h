// SPDX-License-Identifier: Apache-2.0
// A problem in the form of the protocol with workers (python/PROTOCOL.md, PROBLEM).
#pragma once

#include <nlohmann/json.hpp>

#include "harness/loss/loss_implementation.h"

namespace lossgrid {

/// Returns the problem without a rank.
nlohmann::json problem_json(const LossProblem& problem);

/// Returns the problem of one rank of the grid.
nlohmann::json problem_json(const LossProblem& problem, int tp_rank, int cp_rank);

}  // namespace lossgrid
