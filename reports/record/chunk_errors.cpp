// SPDX-License-Identifier: Apache-2.0
#include "reports/record/chunk_errors.h"

#include <algorithm>
#include <set>
#include <utility>

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

}  // namespace lossgrid
