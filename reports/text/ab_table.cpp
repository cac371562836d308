// SPDX-License-Identifier: Apache-2.0
// Text form of A/B comparisons. A verdict never stands without its interval, margin and number
// of launches.
#include <algorithm>

#include "reports/record/ab_record.h"
#include "reports/text/text_table.h"

namespace lossgrid {
namespace {

constexpr std::size_t kSideWidth = 32;
constexpr std::size_t kVerdict = 9;  // the column

std::string launches_text(const std::vector<double>& ratios) {
  if (ratios.empty()) return "";
  const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
  return fmt::format("{:.3f}..{:.3f}", *least, *most);
}

std::string title(const AbRecord& record) {
  return fmt::format("{} on {}, cache {}", record.case_title, record.grid, record.cache);
}

std::string self_check_text(const AbRecord& record) {
  const std::string where = fmt::format("{} {}", title(record), record.phase);
  if (record.is_false_alarm()) {
    return fmt::format("false alarm: {} against itself is {} ({})\n", record.a,
                       name(record.verdict), where);
  }
  if (record.verdict == AbVerdict::inconclusive) {
    return fmt::format("too noisy for a margin of {:.3g} %: {} against itself ({})\n",
                       100 * record.margin, record.a, where);
  }
  return "";
}

}  // namespace

std::string format_ab_table(const std::vector<AbRecord>& records, const TextStyle& style) {
  if (records.empty()) return "";
  TextTable table;
  table.add_columns({"phase", "A", "B"}, Align::left);
  table.add_columns({"B / A", "interval", "confidence", "n", "launches", "pairs"}, Align::right);
  table.add_column("verdict", Align::left);
  std::string self_checks;
  for (const AbRecord& record : records) {
    if (&record == records.data() || title(record) != title(*(&record - 1))) {
      table.add_title(title(record));
    }
    table.add_row({record.phase, shortened(record.a, kSideWidth), shortened(record.b, kSideWidth),
                   fmt::format("{:.3f}", record.ratio.median),
                   fmt::format("{:.3f}..{:.3f}", record.ratio.low, record.ratio.high),
                   fmt::format("{:.1f}%", 100 * record.ratio.confidence),
                   std::to_string(record.launch_ratios.size()), launches_text(record.launch_ratios),
                   std::to_string(record.pairs), std::string(name(record.verdict))});
    if (record.verdict == AbVerdict::regressed) table.mark_bad(kVerdict);
    if (record.is_self_check()) self_checks += self_check_text(record);
  }
  const AbRecord& first = records.front();
  table.may_leave_out({"pairs", "confidence", "launches", "n"}, "--report has all");
  return table.text(style) +
         fmt::format(
             "B / A: time of B over time of A, the median of n launches with its exact interval "
             "by order statistics.\nREGRESSED is above {:.3f} for certain, OK below it; margin "
             "{:.3g} %, seed {}.\n",
             1 + first.margin, 100 * first.margin, first.seed) +
         self_checks;
}

}  // namespace lossgrid
