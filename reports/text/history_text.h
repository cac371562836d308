// SPDX-License-Identifier: Apache-2.0
// Text and JSON forms of a history, with the changes found in it.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "reports/change/history.h"

namespace lossgrid {

/// Returns a line for each series of times and for each counter that changed, then the number of
/// counters that did not. Lines end in '\n'.
std::string format_history(const std::vector<HistorySeries>& history);

/// Returns every series with all points and changes, schema "lossgrid.history_series/1".
nlohmann::ordered_json history_to_json(const std::vector<HistorySeries>& history);

}  // namespace lossgrid
