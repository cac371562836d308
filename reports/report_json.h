// SPDX-License-Identifier: Apache-2.0
// Report JSON, schema reports/schema/report-1.schema.json: fixed key order, units in the keys,
// NaN and infinities as null, shortest numbers, so that two runs differ only in the fields listed by
// volatile_paths().
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "reports/record.h"

namespace lossgrid {

nlohmann::ordered_json trial_to_json(const TrialRecord& trial);
nlohmann::ordered_json run_to_json(const RunRecord& run);

/// Names of the keys whose values change from run to run of the same thing (times, dates, host).
const std::vector<std::string>& volatile_keys();

}  // namespace lossgrid
