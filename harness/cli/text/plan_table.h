// SPDX-License-Identifier: Apache-2.0
// Text and JSON of plans: predicted bytes, FLOPs and collectives of implementations and, with a
// limit, the largest case that fits.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/core/process/terminal.h"
#include "harness/planner/plan/plan.h"

namespace lossgrid {

/// One case on one grid: the needs of its implementations, or the largest case that fits.
struct PlannedGrid {
  CaseSpec spec;
  Grid grid;
  std::vector<Fit> fits;  // without --fit only the rows of plans are set
};

/// Returns the table of all plans, with a column for the largest fitting case if `with_fit`.
std::string format_plans(const std::vector<PlannedGrid>& plans, bool with_fit,
                         const TextStyle& style);

/// Returns the object of one plan in the file of --json.
nlohmann::ordered_json plan_to_json(const Fit& fit, std::optional<std::int64_t> limit);

}  // namespace lossgrid
