// SPDX-License-Identifier: Apache-2.0
// Benchmarks run one at a time on the main thread; ranks are threads of the timing and end with it.
#include "harness/gbench/trial_benchmarks.h"

#include <algorithm>
#include <memory>

#include <benchmark/benchmark.h>

#include "harness/loss/registry.h"

namespace lossgrid {
namespace {

bool measured(TimingStatus status) {
  return status == TimingStatus::timed || status == TimingStatus::unstable;
}

class PhaseBenchmark {
 public:
  PhaseBenchmark(std::string name, std::shared_ptr<TimedTrial> trial, Phase phase, TrialRuns& runs,
                 TrackerMemory& memory)
      : name_(std::move(name)),
        trial_(std::move(trial)),
        phase_(phase),
        runs_(runs),
        memory_(memory) {}

  void run(benchmark::State& state) {
    if (memory_.measuring()) return report_memory(state);
    const std::string reason = measure(state);
    if (reason.empty()) return;
    if (reason.starts_with("skipped: ")) runs_.skipped.insert(name_);
    state.SkipWithError(reason.c_str());
  }

 private:
  void report_memory(benchmark::State& state) const {
    for ([[maybe_unused]] auto _ : state) {
    }
    const PhaseUse use = trial_->memory(phase_);
    memory_.add(use.peak_bytes, use.allocations * static_cast<std::int64_t>(state.iterations()));
  }

  /// Returns why there is nothing to report.
  std::string measure(benchmark::State& state) {
    if (state.max_iterations != runs_.session.iterations) {
      return "iterations are fixed: a trial warms up by itself";
    }
    if (const auto reason = trial_->not_timed()) return reason->text;
    const TimingRecord* record = trial_->timing(repetition_++);
    if (record == nullptr) return "a rank of this trial hangs";
    if (record->status == TimingStatus::skipped) return "skipped: " + record->reason;
    if (record->rows.empty()) return record->reason;
    const auto row = std::find_if(record->rows.begin(), record->rows.end(),
                                  [&](const TimingRow& r) { return r.phase == name(phase_); });
    if (!measured(row->status)) return row->reason;
    return report_times(*record, *row, state);
  }

  std::string report_times(const TimingRecord& record, const TimingRow& row,
                           benchmark::State& state) const {
    const std::vector<std::int64_t>& samples_ns = row.time.samples_ns;
    const auto iterations = static_cast<std::int64_t>(state.max_iterations);
    if (static_cast<std::int64_t>(samples_ns.size()) != iterations) {
      return fmt::format("{} of {} iterations within {:g} s", samples_ns.size(), iterations,
                         record.max_seconds);
    }
    std::size_t k = 0;
    for ([[maybe_unused]] auto _ : state) {
      state.SetIterationTime(1e-9 * static_cast<double>(samples_ns[k++]));
    }
    const std::int64_t ranks = trial_->grid().ranks();
    if (row.rank_bytes > 0) state.SetBytesProcessed(iterations * ranks * row.rank_bytes);
    state.SetItemsProcessed(iterations * record.tokens);
    state.counters["ranks"] = static_cast<double>(ranks);
    // Nothing is left out as 0: the spread of zeros is no number, and would not be JSON.
    if (row.communication_ratio.value_or(0) > 0) {
      state.counters["communication_ratio"] = *row.communication_ratio;
    }
    return "";
  }

  std::string name_;
  std::shared_ptr<TimedTrial> trial_;
  Phase phase_;
  TrialRuns& runs_;
  TrackerMemory& memory_;
  std::size_t repetition_ = 0;  // the next one
};

void register_trial(const CaseSpec& spec, const std::string& implementation, const Grid& grid,
                    TrialRuns& runs, TrackerMemory& memory) {
  const auto trial = std::make_shared<TimedTrial>(spec, implementation, grid, runs.session);
  for (const Phase phase : timed_phases(make_implementation(implementation)->describe())) {
    const std::string title =
        fmt::format("trial/{}/{}/{}/{}", spec.name, implementation, format_grid(grid), name(phase));
    const auto body = std::make_shared<PhaseBenchmark>(title, trial, phase, runs, memory);
    benchmark::RegisterBenchmark(title.c_str(),
                                 [body](benchmark::State& state) { body->run(state); })
        ->UseManualTime()
        ->Iterations(runs.session.iterations)
        ->Unit(benchmark::kMicrosecond);
  }
}

}  // namespace

void register_trials(const std::vector<Suite>& suites, TrialRuns& runs, TrackerMemory& memory) {
  for (const Suite& suite : suites) {
    for (const CaseSpec& spec : suite.cases) {
      for (const Grid& grid : suite.grids) {
        for (const std::string& implementation : suite.implementations) {
          register_trial(spec, implementation, grid, runs, memory);
        }
      }
    }
  }
}

}  // namespace lossgrid
