// SPDX-License-Identifier: Apache-2.0
#include "reports/text/memory_table.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "harness/core/text.h"
#include "reports/text/table.h"
#include "reports/text/text_table.h"

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

std::string bytes_or_dash(std::optional<std::int64_t> bytes) {
  return bytes ? format_bytes(*bytes) : "-";
}

std::string_view without_options(std::string_view implementation) {
  return implementation.substr(0, implementation.find(':'));
}

}  // namespace

std::vector<MemoryRatioRow> peak_memory_ratios(const RunRecord& run) {
  using Key = std::pair<std::string, std::string>;  // case, grid
  std::map<Key, const TrialRecord*> baselines;
  for (const TrialRecord& trial : run.trials) {
    if (!trial.memory.empty() && without_options(trial.implementation) == kBaseline) {
      baselines.try_emplace({trial.case_key(), trial.grid()}, &trial);
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
                    .measured_ratio = ratio(measured, baseline->second->max_peak_bytes()),
                    .predicted_ratio = ratio(predicted, predicted_peak(*baseline->second)),
                    .device_used_bytes = largest(trial, &PhaseMemoryRecord::device_used_bytes),
                    .device_other_bytes = largest(trial, &PhaseMemoryRecord::device_other_bytes)});
  }
  return rows;
}

std::string format_memory_table(const RunRecord& run, const TextStyle& style) {
  constexpr std::size_t kMostRows = 40;  // the report holds all
  constexpr std::size_t kWidth = 130;
  constexpr std::size_t kTextWidth = 105;
  const std::vector<MemoryRatioRow> rows = peak_memory_ratios(run);
  if (rows.size() < 2 || rows.size() > kMostRows) return "";
  TextTable table;
  table.add_columns({"implementation", "grid"}, Align::left);
  table.add_columns({"measured", "predicted", "ratio", "predicted"}, Align::right);
  const bool has_driver = std::any_of(rows.begin(), rows.end(), [](const MemoryRatioRow& row) {
    return row.device_used_bytes.has_value();
  });
  if (has_driver) table.add_columns({"by driver", "of others"}, Align::right);
  std::string last_case;
  for (const MemoryRatioRow& row : rows) {
    if (row.case_title != last_case) table.add_title(shortened(row.case_title, kWidth));
    last_case = row.case_title;
    std::vector<std::string> cells{row.implementation,
                                   row.grid,
                                   format_bytes(row.measured_bytes),
                                   format_bytes(row.predicted_bytes),
                                   fmt::format("{:.3f}", row.measured_ratio),
                                   fmt::format("{:.3f}", row.predicted_ratio)};
    if (has_driver) {
      cells.push_back(bytes_or_dash(row.device_used_bytes));
      cells.push_back(bytes_or_dash(row.device_other_bytes));
    }
    table.add_row(std::move(cells));
  }
  table.may_leave_out({"of others", "by driver", "predicted", "measured", "grid"},
                      "--report has all");
  const std::size_t width = style.columns_up_to(kTextWidth);
  std::string out = '\n' + wrapped(fmt::format("Peak memory without inputs, and its ratio to {}, "
                                               "measured and predicted:",
                                               kBaseline),
                                   width);
  if (has_driver) {
    out += wrapped(
        "By driver: in use on the GPU, inputs included, beyond what was before the trial; of "
        "others: outside the pool of buffers (libraries, communicators, other processes).",
        width);
  }
  return out + table.text(style) + '\n';
}

}  // namespace lossgrid
