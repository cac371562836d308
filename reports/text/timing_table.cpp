// SPDX-License-Identifier: Apache-2.0
// Timings as text: one block a case, grid and state of the cache, whose rows were timed in turn.
// Times of different blocks are not comparable, only their ratios.
#include <algorithm>
#include <sstream>

#include <fmt/format.h>

#include "reports/record/timing_record.h"
#include "reports/text/text_table.h"

namespace lossgrid {
namespace {

constexpr std::size_t kWidth = 120;
// Columns left for names: ceilings of products have the shorter names.
constexpr std::size_t kNameWidth = 27;
constexpr std::size_t kNameWidthByFlops = 34;

/// "812", "81.2k", "8.12M"
std::string short_rate(double per_second) {
  const char* units[] = {"", "k", "M", "G", "T"};
  std::size_t unit = 0;
  while (per_second >= 1000 && unit + 1 < std::size(units)) {
    per_second /= 1000;
    ++unit;
  }
  const int decimals = per_second < 10 ? 2 : per_second < 100 ? 1 : 0;
  return fmt::format("{:.{}f}{}", per_second, decimals, units[unit]);
}

std::string giga(const std::optional<double>& per_second) {
  return per_second ? fmt::format("{:.1f}", *per_second * 1e-9) : "-";
}

std::string percent(double ratio) {
  return fmt::format("{:.0f}%", 100 * ratio);
}

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

std::vector<std::string> cells_of(const TimingRow& row, bool by_flops) {
  std::vector<std::string> cells{
      shortened(row.implementation, by_flops ? kNameWidthByFlops : kNameWidth),
      short_phase(row.phase)};
  for (std::string& cell : cells_of(row.time)) cells.push_back(std::move(cell));
  cells.push_back(giga(by_flops ? row.flops_per_second : row.bytes_per_second));
  cells.push_back(row.ceiling_ratio ? percent(*row.ceiling_ratio) + " " + row.ceiling : "-");
  cells.push_back(short_rate(row.tokens_per_second));
  cells.push_back(row.speedup ? fmt::format("{:.2f}x", *row.speedup) : "-");
  cells.push_back(row.communication_ratio ? percent(*row.communication_ratio) : "-");
  return cells;
}

std::vector<std::string> cells_of(const CeilingRow& ceiling) {
  std::vector<std::string> cells{"ceiling", ceiling.name};
  for (std::string& cell : cells_of(ceiling.time)) cells.push_back(std::move(cell));
  cells.push_back(giga(ceiling.rate_per_second));
  cells.resize(10, "");
  return cells;
}

std::string table_of(const TimingRecord& record, const TextStyle& style) {
  const bool by_flops = record.useful_flops > 0;
  TextTable table;
  table.add_columns({"implementation", "phase"}, Align::left);
  table.add_columns({"median ms", "p20..p80", "n", by_flops ? "GFLOP/s" : "GB/s", "ceiling",
                     "tokens/s", "speedup", "comm"},
                    Align::right);
  std::vector<std::string> least{"comm",     "tokens/s", "n",      by_flops ? "GFLOP/s" : "GB/s",
                                 "p20..p80", "ceiling",  "speedup"};
  const bool predicted =
      std::any_of(record.rows.begin(), record.rows.end(),
                  [](const TimingRow& row) { return row.predicted.has_value(); });
  if (predicted) {
    table.add_column("predicted ms", Align::right);
    least.emplace_back("predicted ms");
  }
  const auto add_row = [&](std::vector<std::string> cells, const std::string& last) {
    if (predicted) cells.push_back(last);
    table.add_row(std::move(cells));
  };
  for (const TimingRow& row : record.rows) add_row(cells_of(row, by_flops), prediction(row));
  for (const CeilingRow& ceiling : record.ceilings) add_row(cells_of(ceiling), "");
  table.may_leave_out(least, "--report has all");
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
      fmt::format("straggler: rank {} in {}, kernels {} ms, {} ms ({}) more than the other ranks",
                  straggler.rank, worst->implementation, format_milliseconds(straggler.kernel_ns),
                  format_milliseconds(straggler.excess_ns),
                  others > 0 ? percent(static_cast<double>(straggler.excess_ns) / others) : "all"),
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
