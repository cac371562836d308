// SPDX-License-Identifier: Apache-2.0
// Exporter "markdown": GitHub-flavoured markdown, short of the 65,536 bytes that a comment holds.
// It begins with a hidden marker, by which a comment can be found and edited, and the verdict. Then
// come failures only, and the timings, those without a valid time first. Text of the report stands
// in code spans, where nothing of it is markup; single words of a known set are escaped.
#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "harness/core/text.h"
#include "reports/exports/export_parts.h"
#include "reports/exports/exporter.h"
#include "reports/record/timing_numbers.h"
#include "reports/text/number_text.h"
#include "reports/text/table.h"
#include "reports/text/text_table.h"

namespace lossgrid {
namespace {

constexpr std::size_t kMostProblems = 20;  // of trials, of mutants and of the meter
constexpr std::size_t kMostTimings = 30;
constexpr std::size_t kTextWidth = 120;
constexpr std::size_t kWordWidth = 32;

/// Returns one line without control characters.
std::string one_line(const std::string& text, std::size_t width) {
  return shortened(escape_controls(text, "\n"), width);
}

/// Returns a code span, "-" for no text.
std::string code(const std::string& text) {
  if (text.empty()) return "-";
  std::string out = "`";
  for (const char c : one_line(text, kTextWidth)) {
    if (c == '|') out += '\\';  // of a table, also inside of code
    out += c == '`' ? '\'' : c;
  }
  return out + '`';
}

/// Escapes a short word such as "tp2cp1" or "forward_backward", which needs no code span.
std::string word(const std::string& text) {
  constexpr std::string_view kMarkup = "\\`*[]<>|&~!#@";
  std::string out;
  for (const char c : one_line(text, kWordWidth)) {
    if (kMarkup.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

class Table {
 public:
  explicit Table(std::vector<std::string> columns, std::size_t most)
      : columns_(std::move(columns)), most_(most) {}

  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  /// Returns title, head and rows; empty when there are no rows.
  std::string text(const std::string& title) const {
    if (rows_.empty()) return "";
    std::string out = "\n### " + title + "\n\n" + line(columns_) + '|';
    for (std::size_t k = 0; k < columns_.size(); ++k) out += "---|";
    out += '\n';
    for (std::size_t k = 0; k < std::min(rows_.size(), most_); ++k) out += line(rows_[k]);
    if (rows_.size() > most_) out += fmt::format("\nand {} more\n", rows_.size() - most_);
    return out;
  }

 private:
  static std::string line(const std::vector<std::string>& cells) {
    return "| " + join(cells, " | ") + " |\n";
  }

  std::vector<std::string> columns_;
  std::size_t most_;
  std::vector<std::vector<std::string>> rows_;
};

/// Returns a comment that names the suite, without two hyphens and '>', which would end it.
std::string marker(const std::string& suite) {
  std::string id;
  for (const char c : suite.substr(0, kTextWidth)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    id += plain || c == '/' || c == ',' || c == '.' ? c : '_';
  }
  return "<!-- lossgrid:" + id + " -->\n";
}

std::string trials_table(const RunRecord& run) {
  Table table({"status", "case", "grid", "implementation", "worst check", "ratio", "reason"},
              kMostProblems);
  for (const TrialRecord& trial : run.trials) {
    if (!is_bad(trial.status)) continue;
    const CheckRecord* check = worst_failed_check(trial);
    table.add({std::string(name(trial.status)), code(case_text(trial)), trial.grid(),
               code(trial.implementation), code(check == nullptr ? "" : check->name),
               check == nullptr ? "-" : format_ratio(check->ratio), code(trial.reason)});
  }
  return table.text("Trials that did not pass");
}

std::string mutants_table(const RunRecord& run) {
  Table table({"name", "problem", "what it does"}, kMostProblems);
  for (const MutantRecord& mutant : run.mutants) {
    const std::string problem = mutant_problem(mutant);
    if (!problem.empty()) table.add({code(mutant.name), problem, code(mutant.what)});
  }
  return table.text("Mutants and controls");
}

std::string meter_table(const RunRecord& run) {
  Table table({"check", "expected", "measured", "unit"}, kMostProblems);
  for (const MeterRecord& check : run.meter) {
    if (check.passed) continue;
    table.add({code(check.name), fmt::format("{:.6g}", check.expected),
               fmt::format("{:.6g}", check.measured), code(check.unit)});
  }
  return table.text("The meter is wrong");
}

struct TimedRow {
  const TimingRecord* timing;
  const TimingRow* row;  // null: the timing has none
  TimingStatus status() const { return row == nullptr ? timing->status : row->status; }
};

std::vector<TimedRow> rows_of(const RunRecord& run) {
  std::vector<TimedRow> rows;
  for (const TimingRecord& timing : run.timings) {
    for (const TimingRow& row : timing.rows) rows.push_back({&timing, &row});
    if (timing.rows.empty()) rows.push_back({&timing, nullptr});
  }
  std::stable_partition(rows.begin(), rows.end(),
                        [](const TimedRow& r) { return r.status() != TimingStatus::timed; });
  return rows;
}

std::string number_cell(const TimingNumber& number) {
  if (!number.value) return "-";
  const Unit unit = number.column.unit;
  const std::string text = unit == Unit::percent ? fmt::format("{:.0f} %", 100 * *number.value)
                                                 : number_text(number.value, unit);
  return number.note.empty() ? text : text + ' ' + word(number.note);
}

std::string timings_table(const RunRecord& run) {
  std::vector<std::string> heads{"case",  "grid",      "cache",    "implementation",
                                 "phase", "median ms", "20..80 %", "n"};
  for (const TimingNumber& number : summary_numbers({}))
    heads.push_back(column_head(number.column));
  const std::size_t status_column = heads.size();
  heads.emplace_back("status");
  Table table(std::move(heads), kMostTimings);
  for (const TimedRow& timed : rows_of(run)) {
    const TimingRecord& timing = *timed.timing;
    std::vector<std::string> cells{code(timing.case_text), word(timing.grid), word(timing.cache)};
    std::string status(name(timed.status()));
    const std::string& reason = timed.row == nullptr ? timing.reason : timed.row->reason;
    if (!reason.empty()) status += ": " + code(reason);
    if (timed.row == nullptr) {
      cells.resize(status_column, "-");
    } else {
      const TimingRow& row = *timed.row;
      for (const std::string& cell :
           {code(row.implementation), word(row.phase), format_milliseconds(row.time.median_ns),
            format_milliseconds(row.time.p20_ns) + ".." + format_milliseconds(row.time.p80_ns),
            std::to_string(row.time.samples_ns.size())}) {
        cells.push_back(cell);
      }
      for (const TimingNumber& number : summary_numbers(row)) cells.push_back(number_cell(number));
    }
    cells.push_back(status);
    table.add(std::move(cells));
  }
  return table.text("Timings");
}

std::string ab_table(const RunRecord& run) {
  Table table({"case", "grid", "cache", "phase", "A", "B", "B / A"}, kMostTimings);
  for (const AbRecord& record : run.ab) {
    table.add({code(record.case_title), word(record.grid), word(record.cache), word(record.phase),
               code(record.a), code(record.b), ab_finding(record)});
  }
  return table.text("A/B");
}

std::string markdown_text(const RunRecord& run) {
  std::string out = marker(run.suite);
  out += fmt::format("**lossgrid {}** {} {}\n", word(run.command), is_good(run) ? "✅" : "❌",
                     code(verdict_line(run)));
  out += trials_table(run) + mutants_table(run) + meter_table(run) + ab_table(run) +
         timings_table(run);
  out += fmt::format("\nSuite {}, lossgrid {} {}, {}, {}\n", code(run.suite),
                     code(environment_text(run, "tool", "version")),
                     code(environment_text(run, "tool", "git_revision")),
                     code(environment_text(run, "host", "cpu_model")), code(run.started_utc));
  return out;
}

const RegisteredExporter registered_markdown{
    {"markdown", "verdict, what did not pass, timings: comments and step summaries",
     markdown_text}};

}  // namespace
}  // namespace lossgrid
