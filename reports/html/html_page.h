// SPDX-License-Identifier: Apache-2.0
// A report as one HTML file that needs no network: reports/html/ holds the page, its style and its
// scripts, put together at build time with Chart.js. The page draws itself from the report, which
// it carries packed, so that no text of a report ever stands in its markup.
#pragma once

#include <string>

#include "reports/record/record.h"

namespace lossgrid {

/// The page with "@report@" and "@context@" where the data go.
extern const char* const kHtmlTemplate;

/// `report`: as run_to_json or compact_report makes it, offered for download. `context`: what the
/// page shows beside it.
std::string html_page(const nlohmann::ordered_json& report, const nlohmann::ordered_json& context);

/// The page of any run that read_report returns. `history`: as history_to_json makes it, or null.
std::string html_report(const RunRecord& run, const nlohmann::ordered_json& history);

}  // namespace lossgrid
