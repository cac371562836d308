// SPDX-License-Identifier: Apache-2.0
// A history for people and for other programs, with the changes found in it.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "reports/change/history.h"

namespace lossgrid {

/// A line for each series of times and for each counter that changed, then how many counters did
/// not. Lines that end in '\n'.
std::string format_history(const std::vector<HistorySeries>& history);

/// Every series with all points and changes, schema "lossgrid.history_series/1".
nlohmann::ordered_json history_to_json(const std::vector<HistorySeries>& history);

}  // namespace lossgrid
