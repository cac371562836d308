// SPDX-License-Identifier: Apache-2.0
// Reader of a report, or of its partial file, with all parts of its trials expanded.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "reports/file/report_reader.h"
#include "reports/full_report.h"

namespace lossgrid {

inline nlohmann::ordered_json full_report(const std::string& path) {
  return full_report(read_report(path));
}

}  // namespace lossgrid
