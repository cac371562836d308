// SPDX-License-Identifier: Apache-2.0
// Format of reports, as it follows from the lists of fields of its records (field.h) and from the
// rules between fields in reports/schema/report-1.rules.json.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace lossgrid {

struct ReportFormat {
  nlohmann::ordered_json schema;
  // By key of an object: the members that the compact form may leave out, with their values.
  nlohmann::ordered_json defaults = nlohmann::ordered_json::object();
  // Keys of a trial with objects, or lists of objects, that "shared" of a report may have.
  std::vector<std::string> shared_keys;
  // Keys whose values differ between two runs of the same thing (times, dates, host).
  std::vector<std::string> volatile_keys;
};

/// Made on the first call.
const ReportFormat& report_format();

}  // namespace lossgrid
