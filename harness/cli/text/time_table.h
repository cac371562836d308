// SPDX-License-Identifier: Apache-2.0
// Text and JSON of predicted times: by part of a phase, by collective, and the result of a search.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/core/process/terminal.h"
#include "harness/planner/model/search.h"

namespace lossgrid {

/// Returns lines about the machine, the sources of its numbers, and the costs that the times leave
/// out.
std::string describe_model(const TimeModel& model, const TextStyle& style);

/// Returns a row for every phase, followed by a line for every collective.
std::string format_times(const std::vector<TimedPlan>& plans, const TextStyle& style);

/// Returns the first `rows` plans of a search that fit.
std::string format_search(const std::vector<TimedPlan>& plans, std::int64_t memory_bytes,
                          std::size_t rows, const TextStyle& style);

/// Returns the object of a prediction, times in nanoseconds.
nlohmann::ordered_json time_to_json(const TimePrediction& time);

/// Returns the object of a search: every plan, and the limit of memory.
nlohmann::ordered_json search_to_json(const SearchRequest& request, const TimeModel& model,
                                      const std::vector<TimedPlan>& plans);

}  // namespace lossgrid
