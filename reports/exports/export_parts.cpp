// SPDX-License-Identifier: Apache-2.0
#include "reports/exports/export_parts.h"

#include <fmt/format.h>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "reports/text/table.h"

namespace lossgrid {
namespace {

std::string_view meaning(ExitCode code, bool compares) {
  switch (code) {
    case ExitCode::ok:
      return "all as it should be";
    case ExitCode::correctness:
      return "correctness";
    case ExitCode::time_regression:
      return compares ? "time" : "faster than the machine can be";
    case ExitCode::cost_regression:
      return "memory or communication";
    case ExitCode::inconclusive:
      return "inconclusive";
    case ExitCode::rank_crashed:
      return "a rank failed, or the meter is wrong";
    case ExitCode::hang:
      return "hang";
    case ExitCode::usage:
      return "usage";
    case ExitCode::bad_input:
      return "bad input";
    case ExitCode::nothing_ran:
      return "nothing ran";
  }
  return "unknown";
}

std::string outcome(const RunRecord& run) {
  if (is_good(run)) return "passed";
  if (run.status != "complete") {
    std::string out = "incomplete (ended in the middle";
    if (!run.begun_id.empty()) out += " of " + run.begun_id;
    if (run.exit_code != 0) out += fmt::format(", exit code {}", run.exit_code);
    return out + ")";
  }
  return fmt::format("failed ({}, exit code {})",
                     meaning(static_cast<ExitCode>(run.exit_code), !run.ab.empty()), run.exit_code);
}

}  // namespace

bool is_good(const RunRecord& run) {
  return run.status == "complete" && run.exit_code == 0;
}

std::string verdict_line(const RunRecord& run) {
  return outcome(run) + ": " + join(count_lines(run), "; ");
}

std::string mutant_problem(const MutantRecord& mutant) {
  if (mutant.trials == 0) return "";  // nothing in the suites applies to it
  if (mutant.is_control && mutant.rejected) return "a right implementation is rejected";
  if (!mutant.is_control && !mutant.rejected) return "a wrong implementation passes";
  return "";
}

std::string case_text(const TrialRecord& trial) {
  return trial.id.substr(0, trial.id.find('|'));
}

std::string trial_name(const TrialRecord& trial) {
  return case_text(trial) + '/' + trial.implementation + '/' + trial.grid();
}

std::string timing_name(const TimingRecord& timing, const TimingRow& row) {
  return fmt::format("{}/{}/{}/{}/{}", timing.case_text, row.implementation, timing.grid, row.phase,
                     timing.cache);
}

std::string ab_name(const AbRecord& record) {
  return fmt::format("{}/{} over {}/{}/{}/{}", record.case_title, record.b, record.a, record.grid,
                     record.phase, record.cache);
}

std::string ab_finding(const AbRecord& record) {
  return fmt::format("{}{}: {:.3f} [{:.3f}, {:.3f}], {} launches, margin {:.3g} %",
                     record.is_false_alarm() ? "false alarm, " : "", name(record.verdict),
                     record.ratio.median, record.ratio.low, record.ratio.high,
                     record.launch_ratios.size(), 100 * record.margin);
}

std::string environment_text(const RunRecord& run, const char* section, const char* key) {
  if (!run.environment.is_object() || !run.environment.contains(section)) return "";
  const nlohmann::ordered_json& facts = run.environment[section];
  if (!facts.is_object() || !facts.contains(key)) return "";
  return facts[key].is_string() ? facts[key].get<std::string>() : facts[key].dump();
}

std::string UniqueNames::operator()(const std::string& name) {
  const int count = ++seen_[name];
  return count == 1 ? name : (*this)(fmt::format("{} #{}", name, count));
}

}  // namespace lossgrid
