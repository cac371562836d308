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
  std::vector<const TrialRecord*> trials = {};

  bool has_failed() const {
    return std::any_of(trials.begin(), trials.end(),
                       [](const TrialRecord* trial) { return is_bad(trial->status); });
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
    groups[at->second].trials.push_back(&trial);
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

/// Returns the largest ratio of the checks that the column takes, "-" where none of them ran.
std::string worst_ratio(const Group& group, const RatioColumn& column) {
  double most = -1;
  for (const TrialRecord* trial : group.trials) {
    for (const CheckRecord& check : trial->checks) {
      if (column.takes(check.name)) most = std::max(most, comparable_ratio(check.ratio));
    }
  }
  return most < 0 ? "-" : format_ratio(most);
}

std::string worst_grid(const Group& group) {
  const TrialRecord* worst = nullptr;
  for (const TrialRecord* trial : group.trials) {
    if (trial->checks.empty()) continue;
    if (worst == nullptr || trial->max_ratio() > worst->max_ratio()) worst = trial;
  }
  return worst == nullptr ? "-" : worst->grid();
}

/// Returns the largest value over the trials that measured one, "-" without any.
template <typename Has, typename Value, typename Format>
std::string worst_cost(const Group& group, Has&& has, Value&& value, Format&& format) {
  std::int64_t most = -1;
  for (const TrialRecord* trial : group.trials) {
    if (has(*trial)) most = std::max(most, value(*trial));
  }
  return most < 0 ? "-" : format(most);
}

template <typename Predicate>
std::string count_of(const Group& group, Predicate&& has) {
  return std::to_string(
      std::count_if(group.trials.begin(), group.trials.end(),
                    [&](const TrialRecord* trial) { return has(trial->status); }));
}

std::vector<std::string> row_of(const Group& group) {
  const std::size_t grids = group.trials.size();
  std::vector<std::string> cells{
      group.implementation, grids == 1 ? group.trials[0]->grid() : fmt::format("{} grids", grids),
      count_of(group, [](TrialStatus status) { return status == TrialStatus::passed; }),
      count_of(group, is_bad), count_of(group, [](TrialStatus status) {
        return status == TrialStatus::skipped || status == TrialStatus::not_run;
      })};
  for (const RatioColumn& column : ratio_columns()) cells.push_back(worst_ratio(group, column));
  cells.push_back(worst_grid(group));
  // A trial on one rank has memory but no communication: that is 0 calls, not "not measured".
  const auto measured = [](const TrialRecord& trial) { return !trial.memory.empty(); };
  cells.push_back(worst_cost(
      group, measured, [](const TrialRecord& trial) { return trial.max_peak_bytes(); },
      format_bytes));
  cells.push_back(worst_cost(
      group, measured, [](const TrialRecord& trial) { return trial.total_calls(); },
      [](std::int64_t calls) { return std::to_string(calls); }));
  cells.push_back(worst_cost(
      group, measured, [](const TrialRecord& trial) { return trial.total_payload_bytes(); },
      format_bytes));
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
    if (group.has_failed()) table.mark_bad(kFail);
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
