// SPDX-License-Identifier: Apache-2.0
#include "reports/record/record.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "reports/record/invariants.h"

namespace lossgrid {

std::string_view name(TrialStatus status) {
  switch (status) {
    case TrialStatus::passed:
      return "passed";
    case TrialStatus::failed:
      return "failed";
    case TrialStatus::skipped:
      return "skipped";
    case TrialStatus::error:
      return "error";
    case TrialStatus::timeout:
      return "timeout";
    case TrialStatus::crashed:
      return "crashed";
    case TrialStatus::out_of_memory:
      return "out_of_memory";
    case TrialStatus::not_run:
      break;
  }
  return "not_run";
}

TrialStatus trial_status(std::string_view text) {
  for (const TrialStatus status : trial_statuses()) {
    if (name(status) == text) return status;
  }
  throw_bad_input("unknown status '{}' of a trial", text);
}

bool was_cut_short(TrialStatus status) {
  return status == TrialStatus::error || status == TrialStatus::timeout ||
         status == TrialStatus::crashed || status == TrialStatus::out_of_memory;
}

bool is_bad(TrialStatus status) {
  return status == TrialStatus::failed || was_cut_short(status);
}

namespace {

bool only_costs_differ(const TrialRecord& trial) {
  return !trial.cost_mismatches.empty() &&
         std::all_of(trial.checks.begin(), trial.checks.end(),
                     [](const CheckRecord& c) { return c.passed; }) &&
         std::none_of(trial.invariants.begin(), trial.invariants.end(),
                      [](const InvariantRecord& i) {
                        return i.status == "failed" && i.name != kMemoryFromDevice;
                      }) &&
         std::none_of(
             trial.determinism.begin(), trial.determinism.end(),
             [](const DeterminismRecord& d) { return d.claimed && d.verdict == "different_bits"; });
}

}  // namespace

ExitCode exit_code_of(const TrialRecord& trial) {
  switch (trial.status) {
    case TrialStatus::failed:
      return only_costs_differ(trial) ? ExitCode::cost_regression : ExitCode::correctness;
    case TrialStatus::error:
    case TrialStatus::crashed:
    case TrialStatus::out_of_memory:
      return ExitCode::rank_crashed;
    case TrialStatus::timeout:
      return ExitCode::hang;
    default:
      return ExitCode::ok;
  }
}

const std::vector<TrialStatus>& trial_statuses() {
  static const std::vector<TrialStatus> statuses{
      TrialStatus::passed,  TrialStatus::failed,  TrialStatus::skipped,       TrialStatus::error,
      TrialStatus::timeout, TrialStatus::crashed, TrialStatus::out_of_memory, TrialStatus::not_run};
  return statuses;
}

double comparable_ratio(double ratio) {
  return std::isnan(ratio) ? std::numeric_limits<double>::infinity() : ratio;
}

std::string TrialRecord::grid() const {
  std::string text = fmt::format("tp{}cp{}", tp, cp);
  if (dp > 1) text += fmt::format("dp{}", dp);
  if (pp > 1) text += fmt::format("pp{}", pp);
  if (sp) text += "sp";
  if (cp_layout != "zigzag") text += ":" + cp_layout;
  return text;
}

std::string TrialRecord::case_title() const {
  const std::string text = id.substr(0, id.find('|'));  // the text of the case stands first
  if (case_name.empty() || case_name == text) return text;
  return case_name + ": " + text;
}

std::string TrialRecord::case_key() const {
  return case_title() + '\n' + case_parameters.dump();
}

double TrialRecord::max_ratio() const {
  double most = 0;
  for (const CheckRecord& check : checks) most = std::max(most, comparable_ratio(check.ratio));
  return most;
}

std::int64_t TrialRecord::max_peak_bytes() const {
  std::int64_t most = 0;
  for (const PhaseMemoryRecord& row : memory) most = std::max(most, row.measured_peak_bytes);
  return most;
}

std::int64_t TrialRecord::total_payload_bytes() const {
  std::int64_t sum = 0;
  for (const CommunicationRecord& row : communication) sum += row.measured_payload_bytes;
  return sum;
}

std::int64_t TrialRecord::total_calls() const {
  std::int64_t sum = 0;
  for (const CommunicationRecord& row : communication) sum += row.measured_calls;
  return sum;
}

std::string timing_id(const std::string& case_text, const std::string& grid,
                      const std::string& cache, const std::string& backend) {
  const std::string id = fmt::format("{}|{}|{}|timing", case_text, grid, cache);
  return backend == "cpu" ? id : id + "|" + backend;
}

const char* description(Stage stage) {
  switch (stage) {
    case Stage::generate:
      return "Inputs, also logits that a check makes again.";
    case Stage::truth:
      return "Truth in float64.";
    case Stage::run:
      return "The implementations; for timings ceilings and the sampler too.";
    case Stage::compare:
      return "Comparison of outputs with the truth, and the other checks.";
    case Stage::bits:
      return "Fingerprints: inputs stay as they are, and outputs are the same on every run.";
    case Stage::report:
      break;
  }
  return "Writing it, up to its last form.";
}

std::map<std::string, std::int64_t> RunRecord::counts_by_status() const {
  std::map<std::string, std::int64_t> counts;
  for (const TrialStatus status : trial_statuses()) counts[std::string(name(status))] = 0;
  for (const TrialRecord& trial : trials) ++counts[std::string(name(trial.status))];
  return counts;
}

MutationScore RunRecord::mutation_score() const {
  MutationScore score;
  for (const MutantRecord& mutant : mutants) {
    if (mutant.trials == 0) {
      ++score.not_run;
    } else if (mutant.is_control) {
      ++score.controls_total;
      score.controls_accepted += mutant.rejected ? 0 : 1;
    } else {
      ++score.total;
      score.rejected += mutant.rejected ? 1 : 0;
    }
  }
  return score;
}

}  // namespace lossgrid
