// SPDX-License-Identifier: Apache-2.0
// MEASURED of the protocol (python/PROTOCOL.md): a phase as the worker measured it.
#pragma once

#include <nlohmann/json.hpp>

#include "harness/external/learned_calls.h"
#include "harness/loss/loss_implementation.h"

namespace lossgrid {

/// From the answer to a forward or a backward.
PhaseMeasurement phase_measurement(const nlohmann::json& answer);

/// The calls one by one, from the same answer; none where they were not asked for.
LearnedCalls::Calls calls_in(const nlohmann::json& answer);

}  // namespace lossgrid
