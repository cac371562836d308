// SPDX-License-Identifier: Apache-2.0
// Timing as text: one block a case and grid, so that what stands below each other was timed in
// turn. Times of different blocks are not to be compared, only their ratios.
#include <fmt/format.h>

#include "reports/text_table.h"
#include "reports/timing_record.h"

namespace lossgrid {
namespace {

constexpr std::size_t kWidth = 120;

std::string milliseconds(std::int64_t ns) {
  return fmt::format("{:.3f}", static_cast<double>(ns) * 1e-6);
}

std::string title_of(const TimingRecord& record) {
  std::string out = record.case_name;
  if (out != record.case_text) out += (out.empty() ? "" : ": ") + record.case_text;
  return shortened(out, kWidth) + '\n';
}

std::vector<std::string> row_of(const TimingEntry& entry, bool has_useful_flops) {
  return {entry.implementation, milliseconds(entry.median_ns),
          fmt::format("{} to {}", milliseconds(entry.p20_ns), milliseconds(entry.p80_ns)),
          fmt::format("{:.3f}", entry.ratio_to_baseline),
          has_useful_flops ? fmt::format("{:.1f}", entry.useful_flops_per_second * 1e-9) : "-"};
}

std::string not_timed(const std::string& what, std::string_view status, const std::string& reason) {
  return shortened(fmt::format("  {} {}: {}", status, what, reason), kWidth) + '\n';
}

std::string format_record(const TimingRecord& record) {
  const std::string title = title_of(record);
  if (record.status != TimingStatus::timed) {
    return title + not_timed("on " + record.grid, name(record.status), record.reason);
  }
  TextTable table;
  table.add_column("implementation", Align::left);
  for (const char* header : {"median ms", "p20 to p80 ms", "ratio", "GFLOP/s useful"}) {
    table.add_column(header, Align::right);
  }
  std::string skipped;
  for (const TimingEntry& entry : record.entries) {
    if (entry.why_skipped.empty()) {
      table.add_row(row_of(entry, record.useful_flops > 0));
    } else {
      skipped += not_timed(entry.implementation, name(TimingStatus::skipped), entry.why_skipped);
    }
  }
  std::string heading = fmt::format("  on {}, {} rounds in turn, ratio to {}", record.grid,
                                    record.rounds, record.baseline);
  if (const std::string why = record.why_unstable(); !why.empty()) heading += "; unstable: " + why;
  return title + heading + '\n' + table.text() + skipped;
}

}  // namespace

std::string format_timing_table(const std::vector<TimingRecord>& records) {
  std::string out;
  for (const TimingRecord& record : records) {
    if (!out.empty()) out += '\n';
    out += format_record(record);
  }
  return out;
}

}  // namespace lossgrid
