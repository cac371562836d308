// SPDX-License-Identifier: Apache-2.0
#include "reports/record/memory_ratios.h"

#include <algorithm>
#include <map>
#include <utility>

namespace lossgrid {
namespace {

constexpr const char* kBaseline = "linear_materialized";

std::int64_t predicted_peak(const TrialRecord& trial) {
  std::int64_t peak = 0;
  for (const PhaseMemoryRecord& phase : trial.memory) {
    peak = std::max(peak, phase.predicted_peak_bytes.value_or(0));
  }
  return peak;
}

double ratio(std::int64_t bytes, std::int64_t baseline) {
  return baseline > 0 ? static_cast<double>(bytes) / static_cast<double>(baseline) : 0.0;
}

using DriverBytes = std::optional<std::int64_t> PhaseMemoryRecord::*;

std::optional<std::int64_t> largest(const TrialRecord& trial, DriverBytes bytes) {
  std::optional<std::int64_t> most;
  for (const PhaseMemoryRecord& phase : trial.memory) most = std::max(most, phase.*bytes);
  return most;
}

std::string_view without_options(std::string_view implementation) {
  return implementation.substr(0, implementation.find(':'));
}

}  // namespace

std::vector<MemoryRatioRow> peak_memory_ratios(const RunRecord& run) {
  using Key = std::pair<std::string, std::string>;  // case, grid
  struct Peaks {
    std::int64_t measured;
    std::int64_t predicted;
  };
  std::map<Key, Peaks> baselines;
  for (const TrialRecord& trial : run.trials) {
    if (!trial.memory.empty() && without_options(trial.implementation) == kBaseline) {
      baselines.try_emplace({trial.case_key(), trial.grid()},
                            Peaks{trial.max_peak_bytes(), predicted_peak(trial)});
    }
  }
  std::vector<MemoryRatioRow> rows;
  for (const TrialRecord& trial : run.trials) {
    const auto baseline = baselines.find({trial.case_key(), trial.grid()});
    if (baseline == baselines.end() || trial.memory.empty() || trial.chunks == 0) continue;
    const std::int64_t measured = trial.max_peak_bytes();
    const std::int64_t predicted = predicted_peak(trial);
    rows.push_back({.case_title = trial.case_title(),
                    .grid = trial.grid(),
                    .implementation = trial.implementation,
                    .measured_bytes = measured,
                    .predicted_bytes = predicted,
                    .measured_ratio = ratio(measured, baseline->second.measured),
                    .predicted_ratio = ratio(predicted, baseline->second.predicted),
                    .device_used_bytes = largest(trial, &PhaseMemoryRecord::device_used_bytes),
                    .device_other_bytes = largest(trial, &PhaseMemoryRecord::device_other_bytes)});
  }
  return rows;
}

}  // namespace lossgrid
