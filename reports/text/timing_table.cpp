// SPDX-License-Identifier: Apache-2.0
// Timings as text: one block a case, grid and state of the cache, whose rows were timed in turn.
// Times of different blocks are not comparable, only their ratios.
#include <algorithm>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "reports/record/timing_numbers.h"
#include "reports/record/timing_record.h"
#include "reports/text/number_text.h"
#include "reports/text/text_table.h"

namespace lossgrid {
namespace {

constexpr std::size_t kWidth = 120;
// Most columns of names: ceilings of products have the shorter names.
constexpr std::size_t kNameWidth = 27;
constexpr std::size_t kNameWidthByFlops = 34;

std::string short_phase(const std::string& phase) {
  return phase == "forward" ? "fwd" : phase == "backward" ? "bwd" : "both";
}

std::string title_of(const TimingRecord& record, const TextStyle& style) {
  std::string out = record.case_name;
  if (out != record.case_text) out += (out.empty() ? "" : ": ") + record.case_text;
  return shortened(out, style.columns_up_to(kWidth)) + '\n';
}

/// Returns `text` cut where lines have no end, else broken between words.
std::string line_of(const std::string& text, const TextStyle& style) {
  constexpr std::string_view kIndent = "  ";
  if (style.columns <= kIndent.size()) return shortened("  " + text, kWidth) + '\n';
  std::istringstream lines(wrapped(text, style.columns - kIndent.size()));
  std::string out;
  for (std::string line; std::getline(lines, line);) out += fmt::format("{}{}\n", kIndent, line);
  return out;
}

/// Returns `line`; the status that it begins with is red if the time is not valid.
std::string marked(const std::string& line, TimingStatus status, const TextStyle& style) {
  if (status < TimingStatus::above_ceiling) return line;
  const std::size_t at = line.find(name(status));
  const std::size_t length = name(status).size();
  return line.substr(0, at) + style.bad(name(status)) + line.substr(at + length);
}

std::vector<std::string> cells_of(const TimeSummary& time) {
  return {format_milliseconds(time.median_ns),
          fmt::format("{}..{}", format_milliseconds(time.p20_ns), format_milliseconds(time.p80_ns)),
          std::to_string(time.samples_ns.size())};
}

/// Returns "45.21 -4%": the prediction, and its difference to what was measured.
std::string prediction(const TimingRow& row) {
  if (!row.predicted) return "-";
  const double ratio = static_cast<double>(row.predicted->time_ns) /
                       static_cast<double>(std::max<std::int64_t>(1, row.time.median_ns));
  return fmt::format("{} {:+.0f}%", format_milliseconds(row.predicted->time_ns), 100 * (ratio - 1));
}

/// Returns the numbers of a row from left to right. Bytes bound cases that start from logits,
/// operations those that start from hidden states.
std::vector<TimingNumber> shown_numbers(const TimingRow& row, bool by_flops) {
  std::vector<TimingNumber> numbers = timing_numbers(row);
  const Unit hidden = by_flops ? Unit::bytes_per_second : Unit::flops_per_second;
  std::erase_if(numbers, [&](const TimingNumber& number) { return number.column.unit == hidden; });
  std::stable_sort(
      numbers.begin(), numbers.end(),
      [](const TimingNumber& a, const TimingNumber& b) { return a.column.place < b.column.place; });
  return numbers;
}

bool is_throughput(Unit unit) {
  return unit == Unit::bytes_per_second || unit == Unit::flops_per_second;
}

std::vector<std::string> cells_of(const TimingRow& row, bool by_flops) {
  std::vector<std::string> cells{row.implementation, short_phase(row.phase)};
  for (std::string& cell : cells_of(row.time)) cells.push_back(std::move(cell));
  for (const TimingNumber& number : shown_numbers(row, by_flops)) {
    const bool has_note = number.value && !number.note.empty();
    cells.push_back(number_text(number.value, number.column.unit) +
                    (has_note ? ' ' + number.note : ""));
  }
  return cells;
}

std::vector<std::string> cells_of(const CeilingRow& ceiling, bool by_flops) {
  std::vector<std::string> cells{"ceiling", ceiling.name};
  for (std::string& cell : cells_of(ceiling.time)) cells.push_back(std::move(cell));
  for (const TimingNumber& number : shown_numbers({}, by_flops)) {
    const Unit unit = number.column.unit;
    cells.push_back(is_throughput(unit) ? number_text(ceiling.rate_per_second, unit) : "");
  }
  return cells;
}

struct TimingColumn {
  std::string head;
  std::optional<int> importance = {};  // nullopt: narrow lines have it too
};

std::vector<TimingColumn> timing_columns(bool by_flops, bool predicted) {
  std::vector<TimingColumn> columns{
      {"implementation"}, {"phase"}, {"median ms"}, {"p20..p80", 5}, {"n", 3}};
  for (const TimingNumber& number : shown_numbers({}, by_flops)) {
    columns.push_back({column_head(number.column), number.column.importance});
  }
  if (predicted) columns.push_back({"predicted ms", 8});
  return columns;
}

/// Returns the heads of columns that narrow lines do without, the least important first.
std::vector<std::string> least_columns(std::vector<TimingColumn> columns) {
  std::erase_if(columns, [](const TimingColumn& column) { return !column.importance; });
  std::stable_sort(
      columns.begin(), columns.end(),
      [](const TimingColumn& a, const TimingColumn& b) { return a.importance < b.importance; });
  std::vector<std::string> heads;
  for (TimingColumn& column : columns) heads.push_back(std::move(column.head));
  return heads;
}

/// Returns the width of names: what the other columns leave of a line, `most` at most.
std::size_t name_width(const std::vector<TimingColumn>& columns,
                       const std::vector<std::vector<std::string>>& rows, std::size_t most) {
  constexpr std::size_t kGap = 2;  // before every column
  std::size_t used = kGap;
  for (std::size_t k = 1; k < columns.size(); ++k) {
    std::size_t width = columns[k].head.size();
    for (const std::vector<std::string>& cells : rows) width = std::max(width, cells[k].size());
    used += kGap + width;
  }
  return std::clamp(kWidth - std::min(kWidth, used), columns[0].head.size(), most);
}

std::string table_of(const TimingRecord& record, const TextStyle& style) {
  const bool by_flops = record.useful_flops > 0;
  const bool predicted =
      std::any_of(record.rows.begin(), record.rows.end(),
                  [](const TimingRow& row) { return row.predicted.has_value(); });
  std::vector<std::vector<std::string>> rows;
  for (const TimingRow& row : record.rows) {
    rows.push_back(cells_of(row, by_flops));
    if (predicted) rows.back().push_back(prediction(row));
  }
  for (const CeilingRow& ceiling : record.ceilings) {
    rows.push_back(cells_of(ceiling, by_flops));
    if (predicted) rows.back().emplace_back();
  }
  const std::vector<TimingColumn> columns = timing_columns(by_flops, predicted);
  const std::size_t width = name_width(columns, rows, by_flops ? kNameWidthByFlops : kNameWidth);
  TextTable table;
  for (std::size_t k = 0; k < columns.size(); ++k) {
    table.add_column(columns[k].head, k < 2 ? Align::left : Align::right);
  }
  for (std::vector<std::string>& cells : rows) {
    cells[0] = shortened(cells[0], width);
    table.add_row(std::move(cells));
  }
  table.may_leave_out(least_columns(columns), "--report has all");
  return table.text(style);
}

std::string heading_of(const TimingRecord& record, const TextStyle& style) {
  const char* stopped = record.stopped_by == "target"        ? "median known"
                        : record.stopped_by == "time_budget" ? "time over"
                                                             : "most samples";
  const std::string where =
      record.backend == "cpu"
          ? fmt::format("{} thread{} a rank on {} core{}", record.threads_per_rank,
                        record.threads_per_rank == 1 ? "" : "s", record.cores,
                        record.cores == 1 ? "" : "s")
          : fmt::format("backend {}, {}", record.backend, record.timer);
  return line_of(
      fmt::format("on {}, cache {}, {} rounds ({}), {}, {}", record.grid, record.cache,
                  record.rounds, stopped, where,
                  record.no_speedup_reason.empty() ? "speedup over " + record.baseline
                                                   : "no speedup: " + record.no_speedup_reason),
      style);
}

/// Returns a line on the forward_backward row whose slowest rank is furthest behind.
std::string straggler_line(const TimingRecord& record, const TextStyle& style) {
  const TimingRow* worst = nullptr;
  for (const TimingRow& row : record.rows) {
    if (!row.straggler || row.phase != "forward_backward") continue;
    if (worst == nullptr || row.straggler->excess_ns > worst->straggler->excess_ns) worst = &row;
  }
  if (worst == nullptr) return "";
  const Straggler& straggler = *worst->straggler;
  const double others = static_cast<double>(straggler.kernel_ns - straggler.excess_ns);
  return line_of(
      fmt::format(
          "straggler: rank {} in {}, kernels {} ms, {} ms ({}) more than the other ranks",
          straggler.rank, worst->implementation, format_milliseconds(straggler.kernel_ns),
          format_milliseconds(straggler.excess_ns),
          others > 0 ? number_text(static_cast<double>(straggler.excess_ns) / others, Unit::percent)
                     : "all"),
      style);
}

/// Returns a line for each row that is not timed; one for all unstable rows.
std::string verdict_lines(const TimingRecord& record, const TextStyle& style) {
  std::string out;
  const TimingRow* first_unstable = nullptr;
  std::int64_t unstable = 0;
  for (const TimingRow& row : record.rows) {
    if (row.status == TimingStatus::timed) continue;
    if (row.status == TimingStatus::unstable) {
      if (unstable++ == 0) first_unstable = &row;
      continue;
    }
    out += marked(line_of(fmt::format("{}: {} {}: {}", name(row.status), row.implementation,
                                      row.phase, row.reason),
                          style),
                  row.status, style);
  }
  if (unstable > 0) {
    out += line_of(
        fmt::format("unstable: {} rows, {} {}: {}", unstable, first_unstable->implementation,
                    first_unstable->phase, first_unstable->reason),
        style);
  }
  return out;
}

std::string format_record(const TimingRecord& record, const TextStyle& style) {
  std::string out = title_of(record, style);
  if (record.rows.empty()) {
    return out + marked(line_of(fmt::format("{} on {}, cache {}: {}", name(record.status),
                                            record.grid, record.cache, record.reason),
                                style),
                        record.status, style);
  }
  out += heading_of(record, style);
  if (!record.not_representative_reason.empty()) {
    out += line_of("not representative: " + record.not_representative_reason, style);
  }
  if (!record.padding.empty()) out += line_of("padded: " + record.padding, style);
  out += table_of(record, style);
  for (const AllReduceRow& row : record.all_reduce) {
    out += line_of(
        fmt::format("all-reduce over {} of {}: {:.1f} us for 4 bytes, {:.2f} GB/s of 1 MiB",
                    row.group, row.ranks, row.latency_ns * 1e-3, row.bytes_per_second * 1e-9),
        style);
  }
  out += straggler_line(record, style);
  out += verdict_lines(record, style);
  for (const SkippedTiming& skipped : record.skipped) {
    out += line_of(fmt::format("skipped: {}: {}", skipped.implementation, skipped.reason), style);
  }
  return out;
}

}  // namespace

std::string format_milliseconds(std::int64_t ns) {
  const double ms = static_cast<double>(ns) * 1e-6;
  return fmt::format("{:.{}f}", ms, ms < 10 ? 3 : ms < 100 ? 2 : ms < 1000 ? 1 : 0);
}

std::string format_timing_table(const std::vector<TimingRecord>& records, const TextStyle& style) {
  std::string out;
  for (const TimingRecord& record : records) {
    if (!out.empty()) out += '\n';
    out += format_record(record, style);
  }
  return out;
}

std::string format_meter(const std::vector<MeterRecord>& checks) {
  std::string out;
  for (const MeterRecord& check : checks) {
    if (check.passed) continue;
    out +=
        shortened(fmt::format("meter: {} failed: expected {:.6g} {}, measured {:.6g}: {}",
                              check.name, check.expected, check.unit, check.measured, check.detail),
                  kWidth) +
        '\n';
  }
  return out;
}

}  // namespace lossgrid
