// SPDX-License-Identifier: Apache-2.0
// Reader of MEASURED (python/PROTOCOL.md): a worker's measurements of a phase.
#pragma once

#include <nlohmann/json.hpp>

#include "harness/external/learned_calls.h"
#include "harness/loss/loss_implementation.h"
#include "harness/loss/train_step.h"

namespace lossgrid {

/// Reads a number of the protocol, in which "nan", "inf" and "-inf" are texts.
double number_in(const nlohmann::json& value);

/// Reads the answer to a forward or a backward.
PhaseMeasurement phase_measurement(const nlohmann::json& answer);

/// Reads the report of an engine from the answer to its train step. Throws bad_input for a slice
/// outside of the `elements` elements of the weight.
StepReport step_report(const nlohmann::json& answer, std::int64_t elements);

/// Reads the single calls from the same answer; empty if they were not requested.
LearnedCalls::Calls calls_in(const nlohmann::json& answer);

}  // namespace lossgrid
