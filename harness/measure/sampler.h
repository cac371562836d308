// SPDX-License-Identifier: Apache-2.0
// Sampler: the timing protocol. Every round runs all compared items, in a random order that all
// ranks share. A barrier precedes each timed part; the sample is the time of the slowest rank, and
// the time of each rank is kept too. After each round rank 0 decides if the next round is the last
// and broadcasts the decision, so that ranks never differ in their actions. No sample is dropped.
// Nothing is allocated between the two readings of the clock.
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

/// Item to time: one or more consecutive steps (forward, then backward). All ranks have the same
/// items with the same number of steps; every function may be collective.
class SampledItem {
 public:
  virtual ~SampledItem() = default;
  virtual std::size_t steps() const = 0;
  /// Prepares run(step), untimed. `last` is true in the round whose outputs finish() examines.
  virtual void prepare(std::size_t step, bool last) = 0;
  /// Runs the timed part.
  virtual void run(std::size_t step) = 0;
  /// Returns the time of run(step) by the item's own clock, which is nearer to the timed work;
  /// nullopt for the time by the sampler's clock or timer.
  virtual std::optional<std::int64_t> measured_ns() const { return std::nullopt; }
  /// Examines the outputs, untimed, after run(step) of the last round.
  virtual void finish(std::size_t /*step*/) {}
};

/// Times of one step, by round.
struct StepSamples {
  std::vector<std::int64_t> slowest_ns;            // of the slowest rank, at least 1; alike on all
                                                   // ranks
  std::vector<std::int64_t> own_ns;                // of this rank
  std::vector<std::int64_t> own_communication_ns;  // part of own_ns inside of collectives
};

struct SamplerRequest {
  StopRule stop;
  // Duration of the warm-up: at least one round, and more rounds until this time has passed.
  std::int64_t warm_up_ns = 20'000'000;
  std::uint64_t order_seed = 1;
  DeviceTimer* timer = nullptr;         // timer of the timed part; null: the clock
  std::function<void()> before_sample;  // called on every rank after prepare(); may be empty
  // Called on every rank; rounds count from 0 and include the warm-up. May be empty.
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
