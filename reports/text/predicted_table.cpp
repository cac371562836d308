// SPDX-License-Identifier: Apache-2.0
#include "reports/text/predicted_table.h"

#include <algorithm>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "reports/record/timing_record.h"
#include "reports/text/text_table.h"

namespace lossgrid {
namespace {

/// Times of forward and backward of the trials of an implementation.
struct PredictedTrials {
  std::int64_t measured_ns = 0;
  std::int64_t predicted_ns = 0;
  std::vector<double> ratios;  // predicted / measured, by trial
};

void add_trial(const TrialRecord& trial, PredictedTrials& all) {
  std::int64_t measured = 0;
  std::int64_t predicted = 0;
  for (const PhaseTimeRecord& phase : trial.times) {
    if (!phase.predicted_ns) continue;
    measured += phase.max_over_ranks_ns;
    predicted += *phase.predicted_ns;
  }
  if (measured == 0) return;
  all.measured_ns += measured;
  all.predicted_ns += predicted;
  all.ratios.push_back(static_cast<double>(predicted) / static_cast<double>(measured));
}

/// Returns the element in the middle. Requires one.
double middle(std::vector<double> values) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

std::string format_predicted_table(const RunRecord& run, const TextStyle& style) {
  std::map<std::string, PredictedTrials> by_implementation;
  for (const TrialRecord& trial : run.trials) {
    add_trial(trial, by_implementation[trial.implementation]);
  }
  TextTable table;
  table.add_column("implementation", Align::left);
  table.add_columns({"trials", "one run ms", "predicted ms", "predicted / run, median"},
                    Align::right);
  for (const auto& [implementation, trials] : by_implementation) {
    if (trials.ratios.empty()) continue;
    table.add_row({implementation, std::to_string(trials.ratios.size()),
                   format_milliseconds(trials.measured_ns),
                   format_milliseconds(trials.predicted_ns),
                   fmt::format("{:.2f}", middle(trials.ratios))});
  }
  const std::string text = table.text(style);
  return text.empty() ? text
                      : fitted(
                            "Times of forward and backward: of one run, which is no benchmark, "
                            "and predicted",
                            style) +
                            text;
}

}  // namespace lossgrid
