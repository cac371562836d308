// SPDX-License-Identifier: Apache-2.0
// Benchmarks with manual time of every phase of every trial of suites. An iteration is a sample of
// the timing protocol (harness/measure/sampler.h); all samples of a repetition come from one
// timing. Wrong outputs are an error of the benchmark, as are trials that cannot be timed.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "harness/gbench/memory_manager.h"
#include "harness/gbench/timed_trial.h"
#include "harness/problem/case/suite.h"

namespace lossgrid {

struct TrialRuns {
  TrialSession session;
  std::set<std::string> skipped;  // names of the benchmarks that were skipped
};

/// Registers "trial/CASE/IMPLEMENTATION/GRID/PHASE" for the cases x grids x implementations of the
/// suites, in this order, with the iterations of the session. `runs` and `memory` outlive the
/// benchmarks. Throws bad_input for an unknown implementation.
void register_trials(const std::vector<Suite>& suites, TrialRuns& runs, TrackerMemory& memory);

}  // namespace lossgrid
