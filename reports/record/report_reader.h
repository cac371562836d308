// SPDX-License-Identifier: Apache-2.0
// Reads back what report_writer.h wrote: a whole report, or the lines that a run which did not end
// left in `<path>.partial.jsonl`. Keys that are not known are passed over; what JSON cannot hold
// (NaN, infinities) comes back as NaN, and ratios as infinity. Tables are made anew.
#pragma once

#include <string>

#include "reports/record/record.h"

namespace lossgrid {

/// The run at `path`; where there is no such file, its partial file. A last line that was cut off
/// is passed over. Throws io, and bad_input that names the file and what is wrong with it: no JSON,
/// no report, a newer major version.
RunRecord read_report(const std::string& path);

/// Throws bad_input.
TimingRecord timing_from_json(const nlohmann::ordered_json& json);
MutantRecord mutant_from_json(const nlohmann::ordered_json& json);

}  // namespace lossgrid
