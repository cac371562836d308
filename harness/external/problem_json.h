// SPDX-License-Identifier: Apache-2.0
// A problem in the words of the protocol with workers (python/PROTOCOL.md, PROBLEM).
#pragma once

#include <nlohmann/json.hpp>

#include "harness/loss/loss_implementation.h"

namespace lossgrid {

nlohmann::json problem_json(const LossProblem& problem);

/// As one rank of the grid meets it.
nlohmann::json problem_json(const LossProblem& problem, int tp_rank, int cp_rank);

}  // namespace lossgrid
