// SPDX-License-Identifier: Apache-2.0
// Mutation score as text: the defect of every mutant, and the checks that caught it.
#include <algorithm>

#include <fmt/format.h>

#include "harness/core/text.h"
#include "reports/exports/export_parts.h"
#include "reports/text/table.h"
#include "reports/text/text_table.h"

namespace lossgrid {
namespace {

std::string rejected_by(const MutantRecord& mutant) {
  std::string out = "by " + mutant.rejected_by_case;
  if (!mutant.rejected_by_grid.empty()) out += ", " + mutant.rejected_by_grid;
  return out + ": " + join(mutant.rejected_by_checks, ", ");
}

std::string verdict(const MutantRecord& mutant) {
  if (mutant.rejected) return mutant.is_control ? "WRONGLY REJECTED" : "rejected";
  if (mutant.trials == 0) return "NOT RUN";
  return mutant.is_control ? "accepted" : "SURVIVED";
}

/// Adds a row with the defect, and below it the verdict.
void add_mutant(TextTable& table, const MutantRecord& mutant, bool is_narrow) {
  constexpr std::size_t kTextWidth = 80;
  constexpr std::size_t kVerdict = 2;  // the column
  table.add_row(
      {mutant.catalogue_id, mutant.name, verdict(mutant), shortened(mutant.what, kTextWidth)});
  const bool is_wrong = !mutant_problem(mutant).empty();
  if (is_wrong) table.mark_bad(kVerdict);
  const auto add_below = [&](const std::string& text) { table.add_row({"", "", "", text}); };
  if (mutant.rejected) {
    add_below(shortened(rejected_by(mutant), kTextWidth));
  } else if (mutant.trials > 0) {
    add_below(fmt::format("passed {} {}", mutant.trials, mutant.trials == 1 ? "trial" : "trials"));
  }
  if (is_wrong && !mutant.reproduce.empty()) {
    const std::string line = "reproduce: " + mutant.reproduce;
    if (is_narrow) {
      table.add_whole_line("  " + line);
    } else {
      add_below(line);
    }
  }
}

/// Formats a percentage, rounded down: only all of them are 100 %.
std::string percent(std::int64_t part, std::int64_t whole) {
  const std::int64_t tenths = whole == 0 ? 0 : 1000 * part / whole;
  return tenths % 10 == 0 ? fmt::format("{} %", tenths / 10)
                          : fmt::format("{}.{} %", tenths / 10, tenths % 10);
}

std::string table_of(const RunRecord& run, bool controls, const TextStyle& style) {
  TextTable table;
  table.add_columns({"id", controls ? "control" : "mutant", "verdict"}, Align::left);
  table.add_column(controls ? "what is done another way" : "what is wrong", Align::prose);
  table.may_leave_out({"id"}, "--report has all");
  for (const MutantRecord& mutant : run.mutants) {
    if (mutant.is_control == controls) add_mutant(table, mutant, style.columns > 0);
  }
  return table.text(style);
}

}  // namespace

std::string format_mutants_table(const RunRecord& run, const TextStyle& style) {
  const MutationScore score = run.mutation_score();
  std::string out = table_of(run, false, style);
  if (score.controls_total > 0) {
    if (!out.empty()) out += '\n';
    out += table_of(run, true, style);
  }
  if (!out.empty()) out += '\n';
  out += fmt::format("{} of {} mutants rejected ({})\n", score.rejected, score.total,
                     percent(score.rejected, score.total));
  if (score.controls_total > 0) {
    out +=
        fmt::format("{} of {} controls accepted\n", score.controls_accepted, score.controls_total);
  }
  return out;
}

}  // namespace lossgrid
