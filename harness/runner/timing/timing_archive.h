// SPDX-License-Identifier: Apache-2.0
// Lists of the fields of what a rank has timed (harness/core/archive.h): ranks of an MPI job send
// them to each other as bytes.
#pragma once

#include "harness/core/archive.h"
#include "harness/runner/rank/rank_archive.h"
#include "harness/runner/timing/timing_rank.h"

namespace lossgrid {

template <typename A>
void fields(A& archive, StepSamples& step) {
  archive(step.slowest_ns, step.own_ns, step.own_communication_ns);
}

template <typename A>
void fields(A& archive, Samples& samples) {
  archive(samples.items, samples.warm_up_rounds, samples.rounds, samples.stopped_by);
}

template <typename A>
void fields(A& archive, Ceiling& ceiling) {
  archive(ceiling.name, ceiling.bytes, ceiling.flops, ceiling.variants);
}

template <typename A>
void fields(A& archive, AllReduceCeiling& ceiling) {
  archive(ceiling.latency_ns, ceiling.bytes_per_second);
}

template <typename A>
void fields(A& archive, GpuState& state) {
  archive(state.sm_mhz, state.memory_mhz, state.milliwatts, state.celsius, state.limits);
}

template <typename A>
void fields(A& archive, GpuStates& states) {
  archive(states.by_round, states.missing_reason);
}

template <typename A>
void fields(A& archive, RankTiming& timing) {
  archive(timing.samples, timing.ceilings, timing.tp_all_reduce, timing.cp_all_reduce,
          timing.outputs, timing.work, timing.gpu, timing.gpu_states, timing.stages);
}

}  // namespace lossgrid
