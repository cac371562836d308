// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/finished_work.h"

#include "harness/core/text.h"

namespace lossgrid {
namespace {

bool is_finished(TrialStatus status) {
  return status == TrialStatus::passed || status == TrialStatus::failed;
}

bool is_finished(TimingStatus status) {
  return status == TimingStatus::timed || status == TimingStatus::unstable ||
         status == TimingStatus::above_ceiling || status == TimingStatus::failed;
}

template <typename Record>
Record record_of(const std::map<std::string, Record>& records, const std::string& id) {
  const auto found = records.find(id);
  return found == records.end() ? Record() : found->second;
}

}  // namespace

std::string timing_id(const std::string& case_text, const std::string& grid,
                      const std::string& cache) {
  return fmt::format("{}|{}|{}|timing", case_text, grid, cache);
}

FinishedWork::FinishedWork(const RunRecord& earlier, const Ranks& ranks) {
  std::vector<std::string> ids;
  for (const TrialRecord& trial : earlier.trials) {
    if (!is_finished(trial.status)) continue;
    trials_.insert_or_assign(trial.id, trial);
    ids.push_back(trial.id);
  }
  for (const TimingRecord& timing : earlier.timings) {
    if (!is_finished(timing.status)) continue;
    const std::string id = timing_id(timing.case_text, timing.grid, timing.cache);
    timings_.insert_or_assign(id, timing);
    ids.push_back(id);
  }
  const std::string agreed = ranks.first_text(ranks.reports() ? join(ids, "\n") : "");
  for (const std::string& id : split(agreed, '\n')) {
    if (!id.empty()) ids_.insert(id);
  }
}

TrialRecord FinishedWork::trial(const std::string& id) const {
  return record_of(trials_, id);
}

TimingRecord FinishedWork::timing(const std::string& id) const {
  return record_of(timings_, id);
}

}  // namespace lossgrid
