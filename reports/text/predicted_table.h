// SPDX-License-Identifier: Apache-2.0
// Predicted times of trials beside the times of their one run, by implementation.
#pragma once

#include <string>

#include "harness/core/process/terminal.h"
#include "reports/record/record.h"

namespace lossgrid {

/// Returns a row for every implementation whose trials have predicted times; empty when none has.
std::string format_predicted_table(const RunRecord& run, const TextStyle& style = {});

}  // namespace lossgrid
