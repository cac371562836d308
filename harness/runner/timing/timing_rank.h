// SPDX-License-Identifier: Apache-2.0
// The part of one rank in a timing: one set of inputs, gradient buffers and per-token outputs for
// all implementations, a plan for each, and the rounds of the sampler. All outputs of the last
// timed iteration of each implementation are checked as in a trial.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/device/device_work.h"
#include "harness/measure/all_reduce_ceiling.h"
#include "harness/measure/sampler.h"
#include "harness/problem/case/suite.h"
#include "harness/runner/rank/rank_trial.h"
#include "harness/runner/timing/gpu_rows.h"
#include "harness/runner/timing/phase.h"
#include "harness/runner/timing/timing_ceilings.h"

namespace lossgrid {

/// Implementations of one timing and how they are sampled. Ranks share it; one that hangs keeps it.
struct TimingPlan {
  std::vector<TrialSetup> setups;  // of the implementations, on one problem and grid
  std::int64_t product_rows = 0;   // of the ceilings
  CacheMode cache = CacheMode::hot;
  SamplerRequest sampler;
  std::optional<TrialRecording> recording;
  std::optional<Fault> fault;
};

/// Returns the phases of an implementation that are timed, in this order: all three, or
/// forward_backward alone where it has no other. Forward and backward are two parts of one
/// iteration.
std::vector<Phase> timed_phases(const ImplementationTraits& description);

struct RankTiming {
  Samples samples;                // of the implementations, then of the ceilings
  std::vector<Ceiling> ceilings;  // in the order of their items
  AllReduceCeiling tp_all_reduce;
  AllReduceCeiling cp_all_reduce;
  // [setups][iterations of the last round]: outputs as a trial finds them, without costs.
  std::vector<std::vector<RankResult>> outputs;
  std::vector<std::vector<DeviceWork>> work;  // [setups][phases], of the last round
  std::string gpu;                            // identity of the rank's GPU; empty: none
  GpuStates gpu_states;                       // at the beginnings of rounds, with the warm-up
  StageTimes stages;
};

/// Runs a rank of a timing. Collective over `world`.
RankTiming time_rank(const TimingPlan& plan, Communicator& world);

/// Returns the bytes that time_rank holds on a rank.
std::int64_t timing_memory_bytes(const LossProblem& problem, const TimingPlan& plan);
/// Returns the bytes of host memory for a rank on a GPU: copies that checks read, and tables by
/// token.
std::int64_t timing_host_bytes(const LossProblem& problem);

}  // namespace lossgrid
