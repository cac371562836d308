// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/core/text.h"
#include "reports/record/memory_ratios.h"
#include "reports/text/table.h"
#include "reports/text/text_table.h"

namespace lossgrid {
namespace {

std::string bytes_or_dash(std::optional<std::int64_t> bytes) {
  return bytes ? format_bytes(*bytes) : "-";
}

}  // namespace

std::string format_memory_table(const RunRecord& run, const TextStyle& style) {
  constexpr std::size_t kMostRows = 40;  // the report holds all
  constexpr std::size_t kWidth = 130;
  constexpr std::size_t kTextWidth = 105;
  const std::vector<MemoryRatioRow> rows = peak_memory_ratios(run);
  if (rows.size() < 2 || rows.size() > kMostRows) return "";
  TextTable table;
  table.add_columns({"implementation", "grid"}, Align::left);
  table.add_columns({"measured", "predicted", "ratio", "predicted"}, Align::right);
  const bool has_driver = std::any_of(rows.begin(), rows.end(), [](const MemoryRatioRow& row) {
    return row.device_used_bytes.has_value();
  });
  if (has_driver) table.add_columns({"by driver", "of others"}, Align::right);
  std::string last_case;
  for (const MemoryRatioRow& row : rows) {
    if (row.case_title != last_case) table.add_title(shortened(row.case_title, kWidth));
    last_case = row.case_title;
    std::vector<std::string> cells{row.implementation,
                                   row.grid,
                                   format_bytes(row.measured_bytes),
                                   format_bytes(row.predicted_bytes),
                                   fmt::format("{:.3f}", row.measured_ratio),
                                   fmt::format("{:.3f}", row.predicted_ratio)};
    if (has_driver) {
      cells.push_back(bytes_or_dash(row.device_used_bytes));
      cells.push_back(bytes_or_dash(row.device_other_bytes));
    }
    table.add_row(std::move(cells));
  }
  table.may_leave_out({"of others", "by driver", "predicted", "measured", "grid"},
                      "--report has all");
  const std::size_t width = style.columns_up_to(kTextWidth);
  std::string out = '\n' + wrapped(fmt::format("Peak memory without inputs, and its ratio to {}, "
                                               "measured and predicted:",
                                               "linear_materialized"),
                                   width);
  if (has_driver) {
    out += wrapped(
        "By driver: in use on the GPU, inputs included, beyond what was before the trial; of "
        "others: outside the pool of buffers (libraries, communicators, other processes).",
        width);
  }
  return out + table.text(style) + '\n';
}

}  // namespace lossgrid
