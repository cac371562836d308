// SPDX-License-Identifier: Apache-2.0
#include "reports/change/metric.h"

#include <algorithm>
#include <array>

#include "reports/change/compare.h"
#include "reports/change/relative_time.h"
#include "reports/exports/export_parts.h"

namespace lossgrid {
namespace {

template <typename F>
void for_each_counted(const RunRecord& run, F&& f) {
  for (const TrialRecord& trial : run.trials) {
    if (has_counts(trial.status)) f(trial);
  }
}

template <typename F>
void for_each_timed(const RunRecord& run, F&& f) {
  for (const TimingRecord& timing : run.timings) {
    for (const TimingRow& row : timing.rows) {
      if (row.status == TimingStatus::timed || row.status == TimingStatus::unstable) f(timing, row);
    }
  }
}

Measurement of_trial(const TrialRecord& trial, const std::string& phase, std::string place,
                     std::int64_t value) {
  Measurement measurement{subject_of(trial), std::move(place), trial.id, static_cast<double>(value),
                          0};
  measurement.subject.phase = phase;
  return measurement;
}

template <std::int64_t PhaseMemoryRecord::*kValue>
std::vector<Measurement> memory(const RunRecord& run) {
  std::vector<Measurement> out;
  for_each_counted(run, [&](const TrialRecord& trial) {
    for (const PhaseMemoryRecord& row : trial.memory) {
      out.push_back(of_trial(trial, row.phase, fmt::format("rank {}", row.rank), row.*kValue));
    }
  });
  return out;
}

template <std::int64_t CommunicationRecord::*kValue>
std::vector<Measurement> communication(const RunRecord& run) {
  std::vector<Measurement> out;
  for_each_counted(run, [&](const TrialRecord& trial) {
    for (const CommunicationRecord& row : trial.communication) {
      out.push_back(of_trial(trial, row.phase, row.group + ": " + row.operation, row.*kValue));
    }
  });
  return out;
}

std::vector<Measurement> error_ratio(const RunRecord& run) {
  std::vector<Measurement> out;
  for_each_counted(run, [&](const TrialRecord& trial) {
    out.push_back({subject_of(trial), "", trial.id, trial.max_ratio(), 0});
  });
  return out;
}

std::vector<Measurement> time_ratio(const RunRecord& run) {
  std::vector<Measurement> out;
  for_each_timed(run, [&](const TimingRecord& timing, const TimingRow& row) {
    const std::optional<RelativeTime> time = relative_time(timing, row);
    if (!time) return;
    out.push_back({subject_of(timing, row), timing.cache + ", over " + time->reference,
                   row_id(timing, row), time->ratio, time->stderr_ratio});
  });
  return out;
}

std::vector<Measurement> speedup(const RunRecord& run) {
  std::vector<Measurement> out;
  for_each_timed(run, [&](const TimingRecord& timing, const TimingRow& row) {
    if (!row.speedup || row.implementation == timing.baseline) return;
    const std::optional<RelativeTime> time = relative_time(timing, row);
    out.push_back({subject_of(timing, row), timing.cache + ", over " + timing.baseline,
                   row_id(timing, row), *row.speedup, time ? time->stderr_ratio : 0});
  });
  return out;
}

std::vector<Measurement> ceiling_ratio(const RunRecord& run) {
  std::vector<Measurement> out;
  for_each_timed(run, [&](const TimingRecord& timing, const TimingRow& row) {
    if (!row.ceiling_ratio) return;
    out.push_back({subject_of(timing, row), timing.cache + ", of " + row.ceiling,
                   row_id(timing, row), *row.ceiling_ratio, row.time.stderr_ratio});
  });
  return out;
}

std::vector<Measurement> mutation_score_ratio(const RunRecord& run) {
  const MutationScore score = run.mutation_score();
  if (score.total == 0) return {};
  return {{{},
           "mutants",
           "",
           static_cast<double>(score.rejected) / static_cast<double>(score.total),
           0}};
}

}  // namespace

std::string_view name(Direction direction) {
  constexpr std::array<std::string_view, 3> kNames{"lower", "higher", "equal"};
  return kNames[static_cast<std::size_t>(direction)];
}

std::string Subject::text() const {
  std::string out;
  for (const std::string& part : {case_text, grid, implementation}) {
    if (part.empty()) continue;
    out += (out.empty() ? "" : "|") + part;
  }
  return out;
}

const std::vector<ReportMetric>& metrics() {
  using enum Direction;
  constexpr ExitCode kWrong = ExitCode::correctness;
  constexpr ExitCode kCost = ExitCode::cost_regression;
  constexpr ExitCode kSlow = ExitCode::time_regression;
  static const std::vector<ReportMetric> all{
      {"error_ratio", lower, kWrong, false, error_ratio},
      {"peak_bytes", lower, kCost, true, memory<&PhaseMemoryRecord::measured_peak_bytes>},
      {"allocations", lower, kCost, true, memory<&PhaseMemoryRecord::measured_allocations>},
      {"calls", lower, kCost, true, communication<&CommunicationRecord::measured_calls>},
      {"payload_bytes", lower, kCost, true,
       communication<&CommunicationRecord::measured_payload_bytes>},
      {"time_ratio", lower, kSlow, false, time_ratio},
      {"speedup", higher, kSlow, false, speedup},
      {"ceiling_ratio", higher, kSlow, false, ceiling_ratio},
      {"mutation_score_ratio", higher, kWrong, false, mutation_score_ratio}};
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

Subject subject_of(const TrialRecord& trial) {
  return {trial.case_name, case_text(trial), trial.grid(), trial.implementation, ""};
}

Subject subject_of(const TimingRecord& timing) {
  return {timing.case_name, timing.case_text, timing.grid, "", ""};
}

Subject subject_of(const TimingRecord& timing, const TimingRow& row) {
  return {timing.case_name, timing.case_text, timing.grid, row.implementation, row.phase};
}

}  // namespace lossgrid
