// SPDX-License-Identifier: Apache-2.0
#include "reports/html/html_page.h"

#include "harness/core/error.h"
#include "reports/exports/export_parts.h"
#include "reports/file/compact_report.h"
#include "reports/file/packed_text.h"
#include "reports/file/report_json.h"
#include "reports/record/timing_numbers.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;

std::string packed(const Json& json) {
  return gzip_base64(json_text(json, -1));
}

/// Adds the trial or timing that a dead run had begun, and its planned work; null when not known.
void add_dead_run(const RunRecord& run, Json& context) {
  context["begun"] = nullptr;
  if (!run.begun_id.empty()) {
    context["begun"] = {{"id", run.begun_id}, {"reproduce", run.begun_reproduce}};
  }
  context["planned"] = nullptr;
  if (run.planned) {
    context["planned"] = {{"trials", run.planned->trials}, {"timings", run.planned->timings}};
  }
}

/// Returns the columns of the numbers of timing rows, the most important first.
Json number_columns() {
  Json columns = Json::array();
  for (const TimingNumber& number : timing_numbers({})) {
    const Column& column = number.column;
    columns.push_back({{"key", number.key},
                       {"title", column.title},
                       {"unit", name(column.unit)},
                       {"about", number.about},
                       {"note", column.note == nullptr ? Json() : Json(column.note)}});
  }
  return columns;
}

}  // namespace

std::string html_page(const Json& report, const Json& context) {
  if (kHtmlTemplate == nullptr) {
    throw Error(ErrorCode::unsupported, "this build has no HTML page (cmake -DLOSSGRID_HTML=ON)");
  }
  std::string page = kHtmlTemplate;
  Json facts = context;
  facts["number_columns"] = number_columns();
  for (const auto& [place, json] : {std::pair("@report@", &report), {"@context@", &facts}}) {
    page.replace(page.find(place), std::string_view(place).size(), packed(*json));
  }
  return page;
}

std::string html_report(const RunRecord& run, const Json& history, const Json& search) {
  Json context;
  context["verdict"]["good"] = is_good(run);
  context["verdict"]["text"] = verdict_line(run);
  context["history"] = history;
  context["search"] = search;
  add_dead_run(run, context);
  return html_page(compact_report(run), context);
}

}  // namespace lossgrid
