// SPDX-License-Identifier: Apache-2.0
// Mutation score as text: the defect of every mutant, and the checks that caught it.
#include <algorithm>

#include <fmt/format.h>

#include "harness/core/text.h"
#include "reports/record/record_names.h"
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
  if (mutant.trials == 0) return "did not run";
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
  } else if (mutant.trials == 0) {
    add_below(shortened("nothing applies: " + mutant.reason, kTextWidth));
  } else {
    const std::int64_t passed = mutant.trials - mutant.not_counted;
    add_below(fmt::format("passed {} {}", passed, passed == 1 ? "trial" : "trials"));
  }
  if (!mutant.rejected && mutant.not_counted > 0) {
    add_below(fmt::format("failed {}, which {} not count:", mutant.not_counted,
                          mutant.not_counted == 1 ? "does" : "do"));
    add_below(shortened(mutant.reason, kTextWidth));
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

/// Returns a line with the cases that a loaded function fails itself; empty if there are none.
std::string left_out_text(const MutantRecord& control) {
  if (control.left_out.empty()) return "";
  const std::size_t count = control.left_out.size();
  std::string out = fmt::format("{} fails {} {} of the suite unchanged; {} left out:\n",
                                control.name.substr(0, control.name.find('/')), count,
                                count == 1 ? "case" : "cases", count == 1 ? "it is" : "they are");
  for (const std::string& text : control.left_out) out += "  " + text + '\n';
  return out + '\n';
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
  const std::string controls = table_of(run, true, style);
  if (!out.empty() && !controls.empty()) out += '\n';
  out += controls;
  if (!out.empty()) out += '\n';
  for (const MutantRecord& mutant : run.mutants) out = left_out_text(mutant) + out;
  if (score.total > 0 || run.mutants.empty()) {
    out += fmt::format("{} of {} mutants rejected ({})\n", score.rejected, score.total,
                       percent(score.rejected, score.total));
  }
  if (score.controls_total > 0) {
    out +=
        fmt::format("{} of {} controls accepted\n", score.controls_accepted, score.controls_total);
  }
  if (score.not_run > 0) {
    out += fmt::format("{} did not run: nothing in {} applies to {}\n", score.not_run, run.suite,
                       score.not_run == 1 ? "it" : "them");
  }
  return out;
}

}  // namespace lossgrid
