// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/launched_work.h"

#include <algorithm>
#include <utility>

#include "harness/runner/run.h"
#include "harness/runner/verdict/desync_report.h"

namespace lossgrid {

LaunchedWork::LaunchedWork(std::vector<Suite> suites, bool verify) : suites_(std::move(suites)) {
  if (verify) trials_ = planned_trials(suites_);
  for (const Suite& suite : suites_) {
    if (!suite.timing) continue;
    for (const CaseSpec& spec : suite.cases) {
      for (const Grid& grid : suite.grids) {
        for (const CacheMode cache : suite.timing->caches) {
          TimingRecord record;
          record.case_name = spec.name;
          record.case_text = format_case(spec);
          record.grid = format_grid(grid);
          record.cache = name(cache);
          record.backend = name(suite.backend);
          timings_.push_back({record.id(), record});
        }
      }
    }
  }
}

void LaunchedWork::take(const RunRecord& found) {
  // A suite may hold the same trial twice; all of them get its outcome.
  std::multimap<std::string, TrialRecord*> trials;
  for (TrialRecord& trial : trials_) trials.emplace(trial.id, &trial);
  for (const TrialRecord& trial : found.trials) {
    if (trial.status == TrialStatus::not_run) continue;
    const auto [begin, end] = trials.equal_range(trial.id);
    for (auto planned = begin; planned != end; ++planned) {
      const std::string case_name = planned->second->case_name;
      *planned->second = trial;
      planned->second->case_name = case_name;
    }
  }
  for (const TimingRecord& timing : found.timings) {
    for (PlannedTiming& planned : timings_) {
      if (planned.id == timing.id()) planned = {planned.id, timing, true};
    }
  }
  if (!found.meter.empty()) meter_ = found.meter;
}

void LaunchedWork::lose(const Loss& loss) {
  const TrialFacts facts{.failure = loss.failure};
  for (TrialRecord& trial : trials_) {
    if (trial.id != loss.id || trial.status != TrialStatus::not_run) continue;
    set_verdict(trial, facts);
    trial.transport = loss.transport;
    trial.ranks = loss.ranks;
    trial.first_failed_rank = rank_that_died(loss.ranks);
  }
  for (PlannedTiming& timing : timings_) {
    if (timing.id != loss.id || timing.reached) continue;
    timing.reached = true;
    const TrialVerdict verdict = judge(facts);
    timing.record.status = timing_status(verdict.status);
    timing.record.reason = verdict.reason;
  }
}

std::size_t LaunchedWork::reached() const {
  const auto trials = std::count_if(trials_.begin(), trials_.end(), [](const TrialRecord& t) {
    return t.status != TrialStatus::not_run;
  });
  const auto timings = std::count_if(timings_.begin(), timings_.end(),
                                     [](const PlannedTiming& t) { return t.reached; });
  return static_cast<std::size_t>(trials + timings);
}

bool LaunchedWork::has_all_of(const std::string& grid) const {
  return std::none_of(trials_.begin(), trials_.end(),
                      [&](const TrialRecord& t) {
                        return t.grid() == grid && t.status == TrialStatus::not_run;
                      }) &&
         std::none_of(timings_.begin(), timings_.end(),
                      [&](const PlannedTiming& t) { return t.record.grid == grid && !t.reached; });
}

void LaunchedWork::fill(RunRecord& record, const std::string& reason) const {
  record.trials = trials_;
  record.timings.clear();
  const TrialFacts not_reached{.not_reached = reason};
  for (TrialRecord& trial : record.trials.in_memory()) {
    if (trial.status == TrialStatus::not_run) set_verdict(trial, not_reached);
  }
  for (const PlannedTiming& timing : timings_) {
    if (timing.reached) record.timings.push_back(timing.record);
  }
  record.meter = meter_;
  if (!record.trials.empty()) compare_bits(suites_, record.trials.in_memory());
}

}  // namespace lossgrid
