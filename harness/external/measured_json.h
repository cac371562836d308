// SPDX-License-Identifier: Apache-2.0
// Reader of MEASURED (python/PROTOCOL.md): the measurements of a phase by its worker.
#pragma once

#include <nlohmann/json.hpp>

#include "harness/external/learned_calls.h"
#include "harness/loss/loss_implementation.h"

namespace lossgrid {

/// Reads the answer to a forward or a backward.
PhaseMeasurement phase_measurement(const nlohmann::json& answer);

/// Reads the calls one by one from the same answer; none if they were not requested.
LearnedCalls::Calls calls_in(const nlohmann::json& answer);

}  // namespace lossgrid
