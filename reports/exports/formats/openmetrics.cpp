// SPDX-License-Identifier: Apache-2.0
// Exporter "openmetrics": OpenMetrics 1.0 text, for Prometheus, Grafana and GitLab's metrics
// reports. All metrics are gauges in base units, without timestamps, so that readers of the older
// Prometheus text format (textfile collector, Pushgateway) take it too; every family has its
// samples in one block. A number that a trial or timing does not have, or that is not valid, has no
// sample.
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/core/text.h"
#include "reports/exports/export_parts.h"
#include "reports/exports/exporter.h"
#include "reports/record/timing_numbers.h"

namespace lossgrid {
namespace {

using Labels = std::vector<std::pair<const char*, std::string>>;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : escape_controls(text, "\n")) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return format_number(value);
}

class Family {
 public:
  /// `unit`: the end of `name`, or empty.
  Family(std::string name, std::string unit, std::string help)
      : name_("lossgrid_" + std::move(name)), unit_(std::move(unit)), help_(std::move(help)) {}

  void add(double value, const Labels& labels = {}) {
    std::string text;
    for (const auto& [key, label] : labels) {
      text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", key, escaped(label));
    }
    samples_ += name_ + (text.empty() ? "" : '{' + text + '}') + ' ' + number(value) + '\n';
  }

  /// Returns the block of the family; empty without samples.
  std::string text() const {
    if (samples_.empty()) return "";
    std::string out = fmt::format("# TYPE {} gauge\n", name_);
    if (!unit_.empty()) out += fmt::format("# UNIT {} {}\n", name_, unit_);
    return out + fmt::format("# HELP {} {}\n", name_, help_) + samples_;
  }

 private:
  std::string name_;
  std::string unit_;
  std::string help_;
  std::string samples_;
};

std::string run_text(const RunRecord& run) {
  // A gauge and no info: the older format does not have that type.
  Family build("build_info", "", "Version and revision of lossgrid, and the suite; always 1.");
  build.add(1, {{"version", environment_text(run, "tool", "version")},
                {"git_revision", environment_text(run, "tool", "git_revision")},
                {"suite", run.suite}});
  Family complete("run_complete", "", "1 when the run ended.");
  complete.add(run.status == "complete" ? 1 : 0);
  Family code("run_exit_code", "", "Exit code of the run.");
  code.add(run.exit_code);
  Family trials("trials", "", "Trials by status.");
  for (const auto& [status, count] : run.counts_by_status()) {
    trials.add(static_cast<double>(count), {{"status", status}});
  }
  return build.text() + complete.text() + code.text() + trials.text();
}

std::string trials_text(const RunRecord& run) {
  Family passed("trial_passed", "", "1 when the trial passed, 0 when it did not.");
  Family error("trial_error_ratio", "ratio", "Largest error / bound of the checks.");
  Family peak("trial_peak_bytes", "bytes", "Peak memory of a rank without inputs.");
  Family payload("trial_payload_bytes", "bytes", "Payload of the collectives of a rank.");
  Family calls("trial_collective_calls", "", "Collectives that a rank calls.");
  UniqueNames unique;
  for (const TrialRecord& trial : run.trials) {
    if (trial.status == TrialStatus::skipped || trial.status == TrialStatus::not_run) continue;
    const std::string begin = case_text(trial) + '\n' + trial.grid() + '\n';
    const Labels labels{
        {"case", case_text(trial)},
        {"grid", trial.grid()},
        {"implementation", unique(begin + trial.implementation).substr(begin.size())}};
    passed.add(trial.status == TrialStatus::passed ? 1 : 0, labels);
    if (!trial.checks.empty()) error.add(trial.max_ratio(), labels);
    if (!trial.memory.empty()) {
      peak.add(static_cast<double>(trial.max_peak_bytes()), labels);
      payload.add(static_cast<double>(trial.total_payload_bytes()), labels);
      calls.add(static_cast<double>(trial.total_calls()), labels);
    }
  }
  return passed.text() + error.text() + peak.text() + payload.text() + calls.text();
}

/// Returns the base unit of a number, which ends the name of its family; empty for counts.
std::string_view base_unit(Unit unit) {
  switch (unit) {
    case Unit::count:
      return "";
    case Unit::factor:
    case Unit::percent:
      return "ratio";
    case Unit::nanoseconds:
      return "seconds";
    case Unit::per_second:
    case Unit::bytes_per_second:
    case Unit::flops_per_second:
      return name(unit);
  }
  return "";
}

Family number_family(const TimingNumber& number) {
  const std::string unit(base_unit(number.column.unit));
  std::string stem = number.key;
  for (const std::string& end : {'_' + unit, std::string("_ns")}) {
    if (stem.ends_with(end)) stem.resize(stem.size() - end.size());
  }
  return {"timing_" + stem + (unit.empty() ? "" : '_' + unit), unit, number.about};
}

std::string timings_text(const RunRecord& run) {
  Family median("timing_median_seconds", "seconds", "Median over rounds of the slowest rank.");
  Family low("timing_p20_seconds", "seconds", "20th percentile of the same.");
  Family high("timing_p80_seconds", "seconds", "80th percentile of the same.");
  std::vector<Family> numbers;
  for (const TimingNumber& number : summary_numbers({})) numbers.push_back(number_family(number));
  UniqueNames unique;
  for (const TimingRecord& timing : run.timings) {
    for (const TimingRow& row : timing.rows) {
      if (row.status != TimingStatus::timed) continue;
      const std::string begin =
          timing.case_text + '\n' + timing.grid + '\n' + timing.cache + '\n' + row.phase + '\n';
      const Labels labels{
          {"case", timing.case_text},
          {"grid", timing.grid},
          {"cache", timing.cache},
          {"phase", row.phase},
          {"implementation", unique(begin + row.implementation).substr(begin.size())}};
      const auto seconds = [](std::int64_t ns) { return static_cast<double>(ns) / 1e9; };
      median.add(seconds(row.time.median_ns), labels);
      low.add(seconds(row.time.p20_ns), labels);
      high.add(seconds(row.time.p80_ns), labels);
      const std::vector<TimingNumber> found = summary_numbers(row);
      for (std::size_t k = 0; k < found.size(); ++k) {
        if (!found[k].value) continue;
        const bool is_time = found[k].column.unit == Unit::nanoseconds;
        numbers[k].add(*found[k].value / (is_time ? 1e9 : 1), labels);
      }
    }
  }
  std::string out = median.text() + low.text() + high.text();
  for (const Family& family : numbers) out += family.text();
  return out;
}

std::string mutants_text(const RunRecord& run) {
  if (run.mutants.empty()) return "";
  const MutationScore score = run.mutation_score();
  Family mutants("mutants", "", "Mutants and controls by verdict.");
  const auto add = [&](const char* kind, const char* verdict, std::int64_t count) {
    mutants.add(static_cast<double>(count), {{"kind", kind}, {"verdict", verdict}});
  };
  add("mutant", "rejected", score.rejected);
  add("mutant", "not_rejected", score.total - score.rejected);
  add("control", "accepted", score.controls_accepted);
  add("control", "not_accepted", score.controls_total - score.controls_accepted);
  add("any", "not_run", score.not_run);
  return mutants.text();
}

std::string openmetrics_text(const RunRecord& run) {
  return run_text(run) + trials_text(run) + timings_text(run) + mutants_text(run) + "# EOF\n";
}

const RegisteredExporter registered_openmetrics{
    {"openmetrics", "OpenMetrics text: Prometheus, Grafana, metrics reports of GitLab",
     openmetrics_text}};

}  // namespace
}  // namespace lossgrid
