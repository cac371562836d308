// SPDX-License-Identifier: Apache-2.0
#include "reports/change/metric.h"

#include <algorithm>
#include <array>

#include "reports/change/relative_time.h"
#include "reports/record/record_names.h"
#include "reports/record/timing_numbers.h"

namespace lossgrid {
namespace {

Measurement of_trial(const TrialRecord& trial) {
  return {.subject = subject_of(trial), .id = trial.id};
}

template <std::int64_t PhaseMemoryRecord::*kValue>
std::vector<Measurement> memory_of(const Selection& selection) {
  std::vector<Measurement> out;
  for (const TrialRecord* trial : selection.trials) {
    Measurement measurement = of_trial(*trial);
    for (const PhaseMemoryRecord& row : trial->memory) {
      measurement.subject.phase = row.phase;
      measurement.place = fmt::format("rank {}", row.rank);
      measurement.value = static_cast<double>(row.*kValue);
      out.push_back(measurement);
    }
  }
  return out;
}

template <std::int64_t CommunicationRecord::*kValue>
std::vector<Measurement> communication_of(const Selection& selection) {
  std::vector<Measurement> out;
  for (const TrialRecord* trial : selection.trials) {
    Measurement measurement = of_trial(*trial);
    for (const CommunicationRecord& row : trial->communication) {
      measurement.subject.phase = row.phase;
      measurement.place = row.group + ": " + row.operation;
      measurement.value = static_cast<double>(row.*kValue);
      out.push_back(measurement);
    }
  }
  return out;
}

std::vector<Measurement> error_ratio(const Selection& selection) {
  std::vector<Measurement> out;
  for (const TrialRecord* trial : selection.trials) {
    out.push_back(of_trial(*trial));
    out.back().value = trial->max_ratio();
  }
  return out;
}

Measurement of_row(const TimingRecord& timing, const TimingRow& row, const std::string& relation,
                   double value, double stderr_ratio) {
  return {.subject = subject_of(timing, row),
          .place = fmt::format("{}, {}", timing.cache, relation),
          .id = row_id(timing, row),
          .value = value,
          .stderr_ratio = stderr_ratio};
}

std::vector<Measurement> time_ratio(const Selection& selection) {
  std::vector<Measurement> out;
  for (const auto& [timing, row] : selection.rows) {
    const std::optional<RelativeTime> time = relative_time(*timing, *row);
    if (!time) continue;
    out.push_back(
        of_row(*timing, *row, "over " + time->reference, time->ratio, time->stderr_ratio));
  }
  return out;
}

std::vector<Measurement> speedup(const Selection& selection) {
  std::vector<Measurement> out;
  for (const auto& [timing, row] : selection.rows) {
    if (!row->speedup || row->implementation == timing->baseline) continue;
    const std::optional<RelativeTime> time = relative_time(*timing, *row);
    out.push_back(of_row(*timing, *row, "over " + timing->baseline, *row->speedup,
                         time ? time->stderr_ratio : 0));
  }
  return out;
}

/// Returns the values of the number of timing rows that reports have under `key`.
std::vector<Measurement> numbers_of_rows(const std::string& key, const Selection& selection) {
  std::vector<Measurement> out;
  for (const auto& [timing, row] : selection.rows) {
    for (const TimingNumber& number : timing_numbers(*row)) {
      if (number.key != key || !number.value) continue;
      const std::string relation = number.note.empty() ? number.column.title : "of " + number.note;
      out.push_back(of_row(*timing, *row, relation, *number.value, row->time.stderr_ratio));
    }
  }
  return out;
}

std::vector<Measurement> mutation_score_ratio(const Selection& selection) {
  const MutationScore& score = selection.mutants;
  if (score.total == 0) return {};
  return {{.subject = {},
           .place = "mutants",
           .value = static_cast<double>(score.rejected) / static_cast<double>(score.total)}};
}

std::vector<ReportMetric> all_metrics() {
  using enum Direction;
  using enum ChangeKind;
  std::vector<ReportMetric> all{
      {"error_ratio", lower, verdict, error_ratio},
      {"peak_bytes", lower, memory, memory_of<&PhaseMemoryRecord::measured_peak_bytes>},
      {"allocations", lower, memory, memory_of<&PhaseMemoryRecord::measured_allocations>},
      {"calls", lower, communication, communication_of<&CommunicationRecord::measured_calls>},
      {"payload_bytes", lower, communication,
       communication_of<&CommunicationRecord::measured_payload_bytes>},
      {"time_ratio", lower, time, time_ratio},
      {"speedup", higher, time, speedup}};
  for (const TimingNumber& number : timing_numbers({})) {
    if (!number.column.better) continue;
    all.push_back(
        {number.key, *number.column.better, time, [key = number.key](const Selection& selection) {
           return numbers_of_rows(key, selection);
         }});
  }
  all.push_back({"mutation_score_ratio", higher, verdict, mutation_score_ratio});
  return all;
}

}  // namespace

std::string_view name(ChangeKind kind) {
  constexpr std::array<std::string_view, 5> kNames{"coverage", "verdict", "memory", "communication",
                                                   "time"};
  return kNames[static_cast<std::size_t>(kind)];
}

ExitCode exit_code_of(ChangeKind kind) {
  if (kind == ChangeKind::time) return ExitCode::time_regression;
  const bool is_cost = kind == ChangeKind::memory || kind == ChangeKind::communication;
  return is_cost ? ExitCode::cost_regression : ExitCode::correctness;
}

std::string Subject::text() const {
  std::string out;
  for (const std::string& part : {case_text, grid, implementation}) {
    if (part.empty()) continue;
    out += (out.empty() ? "" : "|") + part;
  }
  return out;
}

Selection everything_measured(const RunRecord& run) {
  Selection selection{.mutants = run.mutation_score()};
  for (const TrialRecord& trial : run.trials) {
    if (has_counts(trial.status)) selection.trials.push_back(&trial);
  }
  for (const TimingRecord& timing : run.timings) {
    for (const TimingRow& row : timing.rows) {
      if (row.status != TimingStatus::timed && row.status != TimingStatus::unstable) continue;
      selection.rows.emplace_back(&timing, &row);
    }
  }
  return selection;
}

const std::vector<ReportMetric>& metrics() {
  static const std::vector<ReportMetric> all = all_metrics();
  return all;
}

const ReportMetric& find_metric(std::string_view name) {
  for (const ReportMetric& metric : metrics()) {
    if (metric.name == name) return metric;
  }
  throw Error(ErrorCode::internal, fmt::format("no metric '{}'", name));
}

bool has_counts(TrialStatus status) {
  return status == TrialStatus::passed || status == TrialStatus::failed;
}

std::string row_id(const TimingRecord& timing, const TimingRow& row) {
  return fmt::format("{}|{}|{}", timing.id(), row.implementation, row.phase);
}

Subject subject_of(const TrialRecord& trial) {
  return {.case_name = trial.case_name,
          .case_text = case_text(trial),
          .grid = trial.grid(),
          .implementation = trial.implementation};
}

Subject subject_of(const TimingRecord& timing) {
  return {.case_name = timing.case_name, .case_text = timing.case_text, .grid = timing.grid};
}

Subject subject_of(const TimingRecord& timing, const TimingRow& row) {
  Subject subject = subject_of(timing);
  subject.implementation = row.implementation;
  subject.phase = row.phase;
  return subject;
}

}  // namespace lossgrid
