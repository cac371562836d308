// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/job/finished_work.h"

#include "harness/core/text.h"

namespace lossgrid {
namespace {

bool is_finished(TrialStatus status, AfterFailure after) {
  switch (status) {
    case TrialStatus::passed:
    case TrialStatus::failed:
      return true;
    default:
      return was_cut_short(status) && after == AfterFailure::keep;
  }
}

bool is_finished(TimingStatus status, AfterFailure after) {
  if (was_cut_short(status)) return after == AfterFailure::keep;
  return status != TimingStatus::skipped;
}

/// True if an earlier record stands for one over `ranks`. NCCL adds in another order than all other
/// transports, which have the same bits.
bool same_way(const std::string& transport, const Ranks& ranks) {
  return (transport == "nccl") == ranks.has_nccl();
}

template <typename Record>
Record record_of(const std::map<std::string, Record>& records, const std::string& id) {
  const auto found = records.find(id);
  return found == records.end() ? Record() : found->second;
}

}  // namespace

FinishedWork::FinishedWork(const RunRecord& earlier, AfterFailure after, const Ranks& ranks) {
  std::vector<std::string> ids;
  for (const TrialRecord& trial : earlier.trials) {
    if (!is_finished(trial.status, after)) continue;
    if (!same_way(trial.transport, ranks)) continue;
    trials_.insert_or_assign(trial.id, trial);
    ids.push_back(trial.id);
  }
  for (const TimingRecord& timing : earlier.timings) {
    if (!is_finished(timing.status, after) || !same_way(timing.transport, ranks)) continue;
    timings_.insert_or_assign(timing.id(), timing);
    ids.push_back(timing.id());
  }
  const std::string agreed = ranks.share_of_reporter(join(ids, "\n"));
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
