// SPDX-License-Identifier: Apache-2.0
// Reader of a report, or of its partial file, with everything written out.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "reports/record/report_json.h"
#include "reports/record/report_reader.h"

namespace lossgrid {

inline nlohmann::ordered_json full_report(const std::string& path) {
  return run_to_json(read_report(path));
}

}  // namespace lossgrid
