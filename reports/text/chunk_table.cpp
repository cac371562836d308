// SPDX-License-Identifier: Apache-2.0
#include "reports/text/chunk_table.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "reports/text/table.h"
#include "reports/text/text_table.h"

namespace lossgrid {
namespace {

constexpr const char* kWeight = "grad_weight";

/// Fewer numbers of chunks show no trend.
constexpr std::size_t kFewestCounts = 3;

double ratio_of(const TrialRecord& trial) {
  for (const CheckRecord& check : trial.checks) {
    if (check.name == kWeight) return comparable_ratio(check.ratio);
  }
  return 0;
}

void add_trial(const TrialRecord& trial, std::vector<ChunkErrorRow>& rows) {
  const auto same = std::find_if(rows.begin(), rows.end(), [&](const ChunkErrorRow& row) {
    return row.implementation == trial.implementation;
  });
  const double error = comparable_ratio(trial.relative_l2.at(kWeight));
  if (same == rows.end()) {
    rows.push_back({.case_title = trial.case_title(),
                    .chunks = trial.chunks,
                    .implementation = trial.implementation,
                    .relative_l2 = error,
                    .ratio = ratio_of(trial)});
  } else {
    same->chunks = std::max(same->chunks, trial.chunks);
    same->relative_l2 = std::max(same->relative_l2, error);
    same->ratio = std::max(same->ratio, ratio_of(trial));
  }
}

}  // namespace

std::vector<ChunkErrorRow> weight_error_by_chunks(const RunRecord& run) {
  using Key = std::pair<std::string, std::string>;  // case, implementation without options
  std::vector<std::pair<Key, std::vector<ChunkErrorRow>>> groups;
  for (const TrialRecord& trial : run.trials) {
    if (trial.chunks == 0 || !trial.relative_l2.contains(kWeight)) continue;
    const Key key{trial.case_key(), trial.implementation.substr(0, trial.implementation.find(':'))};
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& entry) { return entry.first == key; });
    if (group == groups.end()) group = groups.insert(groups.end(), {key, {}});
    add_trial(trial, group->second);
  }
  std::vector<ChunkErrorRow> all;
  for (auto& [key, rows] : groups) {
    std::set<std::int64_t> counts;
    for (const ChunkErrorRow& row : rows) counts.insert(row.chunks);
    if (counts.size() < kFewestCounts) continue;
    std::stable_sort(rows.begin(), rows.end(), [](const ChunkErrorRow& a, const ChunkErrorRow& b) {
      return a.chunks < b.chunks;
    });
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

std::string format_chunk_table(const RunRecord& run, const TextStyle& style) {
  constexpr std::size_t kWidth = 130;
  TextTable table;
  table.add_column("chunks", Align::right);
  table.add_column("implementation", Align::left);
  table.add_column("relative_l2", Align::right);
  table.add_column("ratio", Align::right);
  const std::vector<ChunkErrorRow> rows = weight_error_by_chunks(run);
  std::string last_case;
  for (const ChunkErrorRow& row : rows) {
    if (row.case_title != last_case) table.add_title(shortened(row.case_title, kWidth));
    last_case = row.case_title;
    table.add_row({std::to_string(row.chunks), row.implementation,
                   fmt::format("{:.3g}", row.relative_l2), format_ratio(row.ratio)});
  }
  if (rows.empty()) return "";
  return '\n' +
         wrapped(
             "Relative error of d weight by chunks, |error| / |truth|, and the ratio of its "
             "worst element:",
             style.columns_up_to(kWidth)) +
         table.text(style) + '\n';
}

}  // namespace lossgrid
