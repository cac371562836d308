// SPDX-License-Identifier: Apache-2.0
// JSON of records and runs, with everything written out: fixed key order, units in the keys, NaN
// and infinities as null, shortest numbers, so that two runs differ only in volatile keys
// (report_format.h). Files have the compact form of compact_report.h.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "reports/record/record.h"

namespace lossgrid {

nlohmann::ordered_json trial_to_json(const TrialRecord& trial);
nlohmann::ordered_json memory_to_json(const PhaseMemoryRecord& record);
nlohmann::ordered_json mutant_to_json(const MutantRecord& mutant);
nlohmann::ordered_json timing_to_json(const TimingRecord& record);
nlohmann::ordered_json ab_to_json(const AbRecord& record);

/// The trial with another form of its memory.
nlohmann::ordered_json trial_to_json(const TrialRecord& trial, nlohmann::ordered_json memory);

/// "run" and the keys around it: schema, run, environment.
nlohmann::ordered_json run_header_to_json(const RunRecord& run);

/// The whole run, without "defaults" and "shared".
nlohmann::ordered_json run_to_json(const RunRecord& run);

/// The same with another form of its trials.
nlohmann::ordered_json run_to_json(const RunRecord& run, nlohmann::ordered_json trials);

/// Text of a report: `indent` blanks a level, -1 for one line. Bytes that are not UTF-8 (file
/// names) are replaced, never refused.
std::string json_text(const nlohmann::ordered_json& json, int indent = 2);

/// The report without volatile keys, at every depth.
nlohmann::ordered_json without_volatile_keys(nlohmann::ordered_json report);

}  // namespace lossgrid
