// SPDX-License-Identifier: Apache-2.0
#include "reports/record/record_names.h"

#include <fmt/format.h>

namespace lossgrid {

bool is_good(const RunRecord& run) {
  return run.status == "complete" && run.exit_code == 0;
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

}  // namespace lossgrid
