// SPDX-License-Identifier: Apache-2.0
#include "reports/text/table.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "harness/core/text.h"
#include "reports/text/text_table.h"

namespace lossgrid {
namespace {

constexpr std::size_t kWidth = 130;

/// Column of the largest ratio of the checks that it takes.
struct RatioColumn {
  const char* header;
  std::function<bool(const std::string&)> takes;
};

const std::vector<RatioColumn>& ratio_columns() {
  const auto is_gradient = [](const std::string& name) { return name.starts_with("grad_"); };
  const auto is_bias = [](const std::string& name) {
    return name.ends_with("_bias") && name != "grad_bias";  // of a bias, not a bias of one
  };
  static const std::vector<RatioColumn> columns{
      {"loss", [](const std::string& name) { return name == "loss"; }},
      {"logprobs", [](const std::string& name) { return name == "logprobs"; }},
      {"entropy", [](const std::string& name) { return name == "entropy"; }},
      {"grad", [=](const std::string& name) { return is_gradient(name) && !is_bias(name); }},
      {"bias", [=](const std::string& name) { return is_gradient(name) && is_bias(name); }},
      // Row extremes serve metrics only, so they need no column of their own.
      {"metrics", [](const std::string& name) {
         return name.starts_with("metric.") || name == "vocab_min" || name == "vocab_max";
       }}};
  return columns;
}

/// One row: the trials of a case and implementation on all grids.
struct Group {
  std::string case_key;
  std::string title;
  std::string implementation;
  std::string first_grid = {};
  std::int64_t trials = 0;
  std::int64_t passed = 0;
  std::int64_t bad = 0;
  std::int64_t skipped = 0;
  std::vector<double> ratios = std::vector<double>(ratio_columns().size(), -1);  // -1: none
  double worst_ratio = -1;
  std::string worst_grid = "-";
  std::int64_t peak_bytes = -1;  // and the others: -1 where no trial measured it
  std::int64_t calls = -1;
  std::int64_t payload_bytes = -1;

  void add(const TrialRecord& trial) {
    if (trials++ == 0) first_grid = trial.grid();
    passed += trial.status == TrialStatus::passed;
    bad += is_bad(trial.status);
    skipped += trial.status == TrialStatus::skipped || trial.status == TrialStatus::not_run;
    for (const CheckRecord& check : trial.checks) {
      for (std::size_t k = 0; k < ratios.size(); ++k) {
        if (!ratio_columns()[k].takes(check.name)) continue;
        ratios[k] = std::max(ratios[k], comparable_ratio(check.ratio));
      }
    }
    if (!trial.checks.empty() && trial.max_ratio() > worst_ratio) {
      worst_ratio = trial.max_ratio();
      worst_grid = trial.grid();
    }
    // A trial on one rank has memory but no communication: that is 0 calls, not "not measured".
    if (trial.memory.empty()) return;
    peak_bytes = std::max(peak_bytes, trial.max_peak_bytes());
    calls = std::max(calls, trial.total_calls());
    payload_bytes = std::max(payload_bytes, trial.total_payload_bytes());
  }
};

/// Groups trials in the order in which cases and implementations first appear; the rows of a case
/// stand together.
std::vector<Group> groups_of(const RunRecord& run, TableRows rows) {
  std::vector<Group> groups;
  std::map<std::string, std::size_t> case_order;
  std::map<std::pair<std::string, std::string>, std::size_t> group_at;
  for (const TrialRecord& trial : run.trials) {
    const std::string key = trial.case_key();
    case_order.try_emplace(key, case_order.size());
    std::string row = trial.implementation;
    if (rows == TableRows::one_per_grid) row += ' ' + trial.grid();
    const auto [at, added] = group_at.try_emplace({key, row}, groups.size());
    if (added) {
      groups.push_back(
          {.case_key = key, .title = trial.case_title(), .implementation = trial.implementation});
    }
    groups[at->second].add(trial);
  }
  std::stable_sort(groups.begin(), groups.end(), [&](const Group& a, const Group& b) {
    return case_order.at(a.case_key) < case_order.at(b.case_key);
  });
  return groups;
}

/// "tp1cp1 tp2cp1", in the order of the run.
std::string grids_of(const RunRecord& run) {
  std::vector<std::string> grids;
  for (const TrialRecord& trial : run.trials) {
    const std::string grid = trial.grid();
    if (std::find(grids.begin(), grids.end(), grid) == grids.end()) grids.push_back(grid);
  }
  return join(grids, " ");
}

std::vector<std::string> row_of(const Group& group) {
  std::vector<std::string> cells{
      group.implementation,
      group.trials == 1 ? group.first_grid : fmt::format("{} grids", group.trials),
      std::to_string(group.passed), std::to_string(group.bad), std::to_string(group.skipped)};
  for (const double ratio : group.ratios) cells.push_back(ratio < 0 ? "-" : format_ratio(ratio));
  cells.push_back(group.worst_grid);
  cells.push_back(group.peak_bytes < 0 ? "-" : format_bytes(group.peak_bytes));
  cells.push_back(group.calls < 0 ? "-" : std::to_string(group.calls));
  cells.push_back(group.payload_bytes < 0 ? "-" : format_bytes(group.payload_bytes));
  return cells;
}

}  // namespace

std::string format_ratio(double ratio) {
  if (!std::isfinite(ratio)) return "inf";
  if (ratio >= 1000) return fmt::format("{:.0e}", ratio);
  return ratio >= 10 ? fmt::format("{:.0f}", ratio) : fmt::format("{:.2g}", ratio);
}

std::string format_trials_table(const RunRecord& run, TableRows rows, const TextStyle& style) {
  constexpr std::size_t kFail = 3;  // the column
  TextTable table;
  table.add_columns({"implementation", "grids"}, Align::left);
  table.add_columns({"pass", "fail", "skip"}, Align::right);
  for (const RatioColumn& column : ratio_columns()) table.add_column(column.header, Align::right);
  table.add_column("worst at", Align::left);
  table.add_columns({"peak", "calls", "payload"}, Align::right);
  table.may_leave_out({"payload", "calls", "peak", "metrics", "entropy", "bias", "worst at", "skip",
                       "grids", "loss", "logprobs", "grad"},
                      "--report has all");
  std::string last_case;
  bool first = true;
  for (const Group& group : groups_of(run, rows)) {
    if (first || group.case_key != last_case) table.add_title(shortened(group.title, kWidth));
    first = false;
    last_case = group.case_key;
    table.add_row(row_of(group));
    if (group.bad > 0) table.mark_bad(kFail);
  }
  if (first) return "";
  const std::size_t width = style.columns_up_to(kWidth);
  return wrapped(
             "Ratio = error / bound, right up to 1. Ratios, peak memory without inputs, collective "
             "calls and payload:",
             width) +
         wrapped("the worst over the grids " + grids_of(run) + ".", width) + table.text(style);
}

std::string format_worst(const WorstElement& worst) {
  std::string out = fmt::format("rank {}", worst.rank);
  if (worst.sequence >= 0) out += fmt::format(", sequence {}", worst.sequence);
  if (worst.token >= 0) out += fmt::format(", token {}", worst.token);
  if (worst.vocab_id >= 0) out += fmt::format(", vocab id {}", worst.vocab_id);
  return out + fmt::format(": got {:.9g}, want {:.9g}", worst.got, worst.want);
}

}  // namespace lossgrid
