// SPDX-License-Identifier: Apache-2.0
// The number of samples is fixed before anything runs, so that no measured time decides how many
// collectives the ranks enter.
#include "harness/gbench/timed_trial.h"

#include <algorithm>
#include <map>

#include "harness/runner/run.h"
#include "harness/runner/timing/timing.h"
#include "harness/runner/trial/trial.h"

namespace lossgrid {
namespace {

constexpr const char* kHung = "a rank of an earlier trial hangs";

TimingRequest exactly(std::int64_t samples, std::chrono::milliseconds deadline) {
  TimingRequest request;
  request.min_samples = samples;
  request.max_samples = samples;
  request.max_seconds = std::chrono::duration<double>(deadline).count();
  return request;
}

bool belongs_to(const std::string& trial_phase, Phase phase) {
  return phase == Phase::forward_backward ? trial_phase != "plan" : trial_phase == name(phase);
}

}  // namespace

TimedTrial::TimedTrial(CaseSpec spec, std::string implementation, const Grid& grid,
                       TrialSession& session)
    : spec_(std::move(spec)),
      implementation_(std::move(implementation)),
      grid_(grid),
      session_(session) {}

std::optional<SkipReason> TimedTrial::not_timed() {
  if (session_.must_end) return SkipReason{kHung};
  if (!verified_) {
    const PreparedProblem& prepared = session_.problems.get(spec_);
    if (prepared.memory_shortage) {
      return SkipReason{"skipped: " + prepared.memory_shortage->text};
    }
    const TrialOutcome trial =
        run_trial(make_trial(prepared, implementation_, grid_), session_.deadline);
    session_.must_end = trial.must_end;
    verified_ = trial.record;
    if (verified_->status != TrialStatus::skipped) {
      session_.code = worst(session_.code, exit_code_of(std::vector{*verified_}));
    }
  }
  if (verified_->status == TrialStatus::passed) return std::nullopt;
  const bool skipped = verified_->status == TrialStatus::skipped;
  return SkipReason{(skipped ? "skipped: " : "") + verified_->reason};
}

const TimingRecord* TimedTrial::timing(std::size_t repetition) {
  while (timings_.size() <= repetition) {
    if (session_.must_end) return nullptr;
    const TimingOutcome timed = time_implementations(
        session_.problems.get(spec_), {implementation_}, grid_,
        exactly(session_.iterations, session_.deadline), CacheMode::hot, session_.deadline);
    session_.must_end = timed.must_end;
    timings_.push_back(timed.record);
    if (timed.record.status != TimingStatus::skipped) {
      session_.code = worst(session_.code, exit_code_of(std::vector{timed.record}));
    }
  }
  return &timings_[repetition];
}

PhaseUse TimedTrial::memory(Phase phase) const {
  PhaseUse most;
  if (!verified_ || verified_->status != TrialStatus::passed) return most;
  std::map<std::int64_t, std::int64_t> allocations;  // by rank
  for (const PhaseMemoryRecord& measured : verified_->memory) {
    if (!belongs_to(measured.phase, phase)) continue;
    most.peak_bytes = std::max(most.peak_bytes, measured.measured_peak_with_inputs_bytes);
    allocations[measured.rank] += measured.measured_allocations;
  }
  for (const auto& [rank, count] : allocations) {
    most.allocations = std::max(most.allocations, count);
  }
  return most;
}

}  // namespace lossgrid
