// SPDX-License-Identifier: Apache-2.0
// `RankCommunicators`: all communicators of one rank of a trial or timing, by their use. Every
// group is built in layers, innermost first: transport (or NCCL), measurement of calls, injected
// faults, staging of payloads through the host. On the thread of the rank.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "harness/comm/communicator.h"
#include "harness/comm/faults/fault_injection.h"
#include "harness/comm/process_grid.h"
#include "harness/runner/rank/device_world.h"

namespace lossgrid {

/// Wraps a group in a decorator that measures its calls (count_calls, time_calls).
using MeasureCalls = std::function<std::unique_ptr<Communicator>(Communicator& group)>;

/// Decorators by axis of the grid; empty: calls along that axis are not measured.
struct MeasuredAxes {
  MeasureCalls tp = {};
  MeasureCalls cp = {};
  MeasureCalls dp = {};
  MeasureCalls pp = {};
};

class RankCommunicators {
 public:
  /// Collective over `world`. `device_world` has the same world; both outlive the object.
  RankCommunicators(Communicator& world, DeviceWorld& device_world, const Grid& grid,
                    const std::optional<Fault>& fault, const MeasuredAxes& measured);
  RankCommunicators(const RankCommunicators&) = delete;
  RankCommunicators& operator=(const RankCommunicators&) = delete;

  /// Returns all ranks, on the transport of the job: for their agreement.
  Communicator& world() { return world_; }
  /// Returns all ranks that run packs (those of the last stage), not measured: implementations
  /// synchronise over it.
  Communicator& stage() { return stage_ ? *stage_ : world_; }
  /// Returns the groups of this rank, not measured and without faults: for sums that the harness
  /// needs for itself, and ceilings of the machine. Those of a dynamic grid have dp = cp x dp and
  /// cp = 1.
  const ProcessGrid& harness() const { return groups_; }

  /// Return the groups of implementations: measured, with faults, for tensors of the device.
  Communicator& tp() { return *tp_; }
  /// `size`: one of Grid::cp_sizes().
  Communicator& cp(int size) { return *cp_.at(size); }
  /// Returns the group that reduces the batch: measured, without faults.
  Communicator& dp() { return *dp_; }
  /// Returns the stages of the pipeline: measured, with faults.
  Communicator& pp() { return *pp_; }

  /// Returns null without a fault.
  FaultInjector* faults() { return injector_ ? &*injector_ : nullptr; }

 private:
  Communicator& keep(std::unique_ptr<Communicator> layer);
  Communicator& measure(Communicator& group, const MeasureCalls& measured);
  Communicator& inject(Communicator& group);

  Communicator& world_;
  ProcessGrid groups_;
  std::unique_ptr<Communicator> stage_;  // null: all ranks run packs
  std::optional<FaultInjector> injector_;
  std::vector<std::unique_ptr<Communicator>> layers_;     // each refers to one before it
  std::vector<std::unique_ptr<Communicator>> cp_groups_;  // of a dynamic grid
  Communicator* tp_;
  std::map<int, Communicator*> cp_;  // by size
  Communicator* dp_;
  Communicator* pp_;
};

}  // namespace lossgrid
