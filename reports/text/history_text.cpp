// SPDX-License-Identifier: Apache-2.0
#include "reports/text/history_text.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "reports/change/change_points.h"
#include "reports/text/text_table.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kCaseWidth = 48;
constexpr std::size_t kDateLength = 10;

std::string value_text(const HistorySeries& series, double value) {
  return series.is_time() ? fmt::format("{:.3f}", value) : fmt::format("{:.0f}", value);
}

/// "+19.2 % at a1b2c3d of 2026-01-02"
std::string change_text(const HistorySeries& series, const ChangePoint& change) {
  const HistoryRun& run = series.points[change.index].run;
  std::string text = std::isfinite(change.ratio)
                         ? fmt::format("{:+.1f} %", 100 * (change.ratio - 1))
                         : "no more 0";
  if (!run.commit.empty()) text += " at " + run.commit;
  if (!run.started_utc.empty()) text += " of " + run.started_utc.substr(0, kDateLength);
  return text;
}

std::string title_of(const HistorySeries& series) {
  if (!series.is_time()) return series.metric;
  return fmt::format("time over {}, on {}", series.reference, series.machine);
}

}  // namespace

std::string format_history(const std::vector<HistorySeries>& history) {
  TextTable table;
  table.add_columns({"case", "grid", "implementation", "phase", "cache"}, Align::left);
  table.add_columns({"runs", "first", "last"}, Align::right);
  table.add_column("changes", Align::left);
  std::string title;
  std::size_t unchanged = 0;
  for (const HistorySeries& series : history) {
    const std::vector<ChangePoint> changes = change_points(series);
    if (!series.is_time() && changes.empty()) {
      ++unchanged;
      continue;
    }
    if (title_of(series) != title) table.add_title(title = title_of(series));
    std::vector<std::string> texts;
    for (const ChangePoint& change : changes) texts.push_back(change_text(series, change));
    table.add_row({shortened(series.case_text, kCaseWidth), series.grid, series.implementation,
                   series.phase, series.cache, std::to_string(series.points.size()),
                   value_text(series, series.points.front().value),
                   value_text(series, series.points.back().value), join(texts, ", ")});
  }
  return table.text() + fmt::format("{} counters never changed\n", unchanged);
}

Json history_to_json(const std::vector<HistorySeries>& history) {
  Json out;
  out["schema"] = "lossgrid.history_series/1";
  out["series"] = Json::array();
  for (const HistorySeries& series : history) {
    Json json{{"metric", series.metric},
              {"case", series.case_text},
              {"grid", series.grid},
              {"implementation", series.implementation}};
    if (series.is_time()) {
      json["phase"] = series.phase;
      json["cache"] = series.cache;
      json["reference"] = series.reference;
      json["machine"] = series.machine;
    } else {
      json["backend"] = series.backend;
    }
    json["points"] = Json::array();
    for (const HistoryPoint& point : series.points) {
      json["points"].push_back({{"run", point.run.id},
                                {"started_utc", point.run.started_utc},
                                {"commit", point.run.commit},
                                {"value", point.value}});
      if (point.stderr_ratio) json["points"].back()["stderr_ratio"] = *point.stderr_ratio;
    }
    json["changes"] = Json::array();
    for (const ChangePoint& change : change_points(series)) {
      json["changes"].push_back(
          {{"index", change.index},
           {"ratio", std::isfinite(change.ratio) ? Json(change.ratio) : Json()},
           {"p_value", change.p_value}});
    }
    out["series"].push_back(std::move(json));
  }
  return out;
}

}  // namespace lossgrid
