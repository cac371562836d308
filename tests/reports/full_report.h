// SPDX-License-Identifier: Apache-2.0
// Report whose trials have all their parts in full, for tests that change single members.
#pragma once

#include "reports/file/report_format.h"
#include "reports/file/report_json.h"

namespace lossgrid {

inline nlohmann::ordered_json full_report(const RunRecord& run) {
  nlohmann::ordered_json report = run_to_json(run);
  report["defaults"] = report_format().defaults;
  report["shared"] = nlohmann::ordered_json::object();
  return report;
}

}  // namespace lossgrid
