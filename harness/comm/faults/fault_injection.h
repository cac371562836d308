// SPDX-License-Identifier: Apache-2.0
// Carries out a fault (fault.h) on its rank: before a collective, or where a phase of its first
// pack begins. Each rank has an injector of its own; those of other ranks do nothing.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "harness/comm/communicator.h"
#include "harness/comm/faults/fault.h"

namespace lossgrid {

class FaultInjector {
 public:
  FaultInjector(const Fault& fault, int world_rank)
      : fault_(fault), waits_(world_rank == fault.rank) {}

  /// Called before a collective of any of the communicators decorated with it.
  void before_call(std::string_view what);
  /// Called where a phase begins.
  void at_phase(RankPhase phase);
  /// Whether an element of what `phase` gave is to become a NaN.
  bool injects_nan(RankPhase phase);
  /// Whether the rank is to lose its GPU where `phase` begins.
  bool injects_device_loss(RankPhase phase);

 private:
  bool fires_now(FaultKind kind, RankPhase phase);
  void fire();
  void strike(const std::string& place);

  Fault fault_;
  bool waits_;  // its turn has not come
  int calls_ = 0;
};

/// Thrown by FaultKind::leave through the body of a rank; the transport takes it as a return.
struct RankLeft {};

/// Both arguments outlive the decorator.
std::unique_ptr<Communicator> inject_faults(Communicator& inner, FaultInjector& injector);

}  // namespace lossgrid
