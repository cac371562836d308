// SPDX-License-Identifier: Apache-2.0
// HTML page of a report: one file that needs no network. reports/html/ holds the page, its style
// and its scripts, put together at build time with Chart.js. The page draws itself from the report,
// which it carries packed, so that no text of a report ever stands in its markup.
#pragma once

#include <string>

#include "reports/record/record.h"

namespace lossgrid {

/// The page with "@report@" and "@context@" in place of the data; null in builds without it.
extern const char* const kHtmlTemplate;

/// Puts data into the page. `report`: from run_to_json or compact_report, offered for download.
/// `context`: an object of facts that the page shows beside it. Throws unsupported in builds
/// without the page.
std::string html_page(const nlohmann::ordered_json& report, const nlohmann::ordered_json& context);

/// Returns the page of any run that read_report returns. `history`: from history_to_json, or null;
/// `search`: a file of lossgrid plan --search, or null.
std::string html_report(const RunRecord& run, const nlohmann::ordered_json& history,
                        const nlohmann::ordered_json& search = nullptr);

}  // namespace lossgrid
