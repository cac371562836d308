// SPDX-License-Identifier: Apache-2.0
// A report that the program left, or the partial file of one, with everything written out.
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
