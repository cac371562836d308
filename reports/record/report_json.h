// SPDX-License-Identifier: Apache-2.0
// Report JSON, schema reports/schema/report-1.schema.json, with everything written out: fixed key
// order, units in the keys, NaN and infinities as null, shortest numbers, so that two runs differ
// only in the fields listed by volatile_keys(). Files have the compact form of compact_report.h.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "reports/record/record.h"

namespace lossgrid {

/// Name and version of the format, MAJOR.MINOR; the first minor version was called "1". A program
/// reads every minor version up to its own and refuses later ones.
inline constexpr const char* kReportFormat = "lossgrid.report/1.1";

nlohmann::ordered_json trial_to_json(const TrialRecord& trial);
/// The same with another form of its memory.
nlohmann::ordered_json trial_to_json(const TrialRecord& trial, nlohmann::ordered_json memory);
nlohmann::ordered_json memory_to_json(const PhaseMemoryRecord& record);
nlohmann::ordered_json mutant_to_json(const MutantRecord& mutant);

/// "run" and what surrounds it: schema, run, environment.
nlohmann::ordered_json run_header_to_json(const RunRecord& run);

/// The whole report.
nlohmann::ordered_json run_to_json(const RunRecord& run);

/// The same with another form of its trials.
nlohmann::ordered_json run_to_json(const RunRecord& run, nlohmann::ordered_json trials);

/// Text of a report: `indent` blanks a level, -1 for one line. Bytes that are not UTF-8 (file
/// names) are replaced, never refused.
std::string json_text(const nlohmann::ordered_json& json, int indent = 2);

/// Names of the keys whose values change from run to run of the same thing (times, dates, host).
const std::vector<std::string>& volatile_keys();

/// The report without them, at every depth.
nlohmann::ordered_json without_volatile_keys(nlohmann::ordered_json report);

}  // namespace lossgrid
