// SPDX-License-Identifier: Apache-2.0
// Sampler: the timing protocol. Compared items run in rounds, every one in every round, in a random
// order that all ranks share. Before each timed part there is a barrier; the sample is the time of
// the slowest rank, and the time of each rank is kept too. Rank 0 decides after each round if the
// next one is the last and broadcasts the decision: ranks never differ in their actions. No sample
// is dropped. Nothing is allocated between the two readings of the clock.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "harness/comm/communicator.h"
#include "harness/core/clock.h"
#include "harness/device/device_timer.h"
#include "harness/measure/stopping.h"

namespace lossgrid {

/// Item to time: one or more steps that follow each other (forward, then backward). All ranks have
/// the same items with as many steps; every function may be collective.
class SampledItem {
 public:
  virtual ~SampledItem() = default;
  virtual std::size_t steps() const = 0;
  /// Prepares run(step), not timed. `last`: true in the round whose outputs finish() examines.
  virtual void prepare(std::size_t step, bool last) = 0;
  /// Runs the timed part.
  virtual void run(std::size_t step) = 0;
  /// Returns the time of run(step) by the item's own clock, nearer to the timed work; nullopt: the
  /// sampler's clock or timer counts.
  virtual std::optional<std::int64_t> measured_ns() const { return std::nullopt; }
  /// Examines the outputs, not timed, after run(step) of the last round.
  virtual void finish(std::size_t /*step*/) {}
};

/// Times of one step, by round.
struct StepSamples {
  std::vector<std::int64_t> slowest_ns;            // over ranks, at least 1; the same on all ranks
  std::vector<std::int64_t> own_ns;                // of this rank
  std::vector<std::int64_t> own_communication_ns;  // the part of it inside of collectives
};

struct SamplerRequest {
  StopRule stop;
  // Rounds before the first sample: at least one, and more until this time has passed.
  std::int64_t warm_up_ns = 20'000'000;
  std::uint64_t order_seed = 1;
  DeviceTimer* timer = nullptr;         // of the timed part; null: the clock
  std::function<void()> before_sample;  // called on every rank after prepare(); may be empty
  // Called on every rank, rounds from 0, those of the warm-up included; may be empty.
  std::function<void(std::int64_t round)> begins_round;
};

struct Samples {
  std::vector<std::vector<StepSamples>> items;  // [items][steps]
  std::int64_t warm_up_rounds = 0;
  std::int64_t rounds = 0;  // at least two
  StopReason stopped_by = StopReason::target;
};

/// Samples all items. Collective over `world`. `communication_ns`: time of this rank inside of
/// collectives so far (timed_communicator.h), read after every step. The clock of rank 0 decides
/// the end.
Samples take_samples(std::span<SampledItem* const> items, Communicator& world,
                     const std::int64_t& communication_ns, const SamplerRequest& request,
                     const ClockNs& clock = steady_clock_ns);

}  // namespace lossgrid
