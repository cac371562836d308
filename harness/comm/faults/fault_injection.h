// SPDX-License-Identifier: Apache-2.0
// FaultInjector: carries out a fault (fault.h) on its rank, before a collective or at the begin of
// a phase of its first pack. Each rank has its own injector; those of other ranks do nothing.
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

  /// Strikes if this is the call of the fault. Called before each collective of the decorated
  /// communicators.
  void before_call(std::string_view collective);
  /// Strikes if the fault belongs to the begin of `phase`, except for nan and device_loss.
  void at_phase(RankPhase phase);
  /// Returns true, once, if an element of the output of `phase` is to become NaN.
  bool injects_nan(RankPhase phase);
  /// Returns true, once, if the rank is to lose its GPU at the begin of `phase`.
  bool injects_device_loss(RankPhase phase);

 private:
  bool fires_now(FaultKind kind, RankPhase phase);
  void fire();
  void strike(const std::string& place);

  Fault fault_;
  bool waits_;  // false on other ranks and after the fault
  int calls_ = 0;
};

/// Thrown by FaultKind::leave through the body of a rank; transports treat it as a return.
struct RankLeft {};

/// Makes a decorator that calls before_call(). Both arguments outlive it.
std::unique_ptr<Communicator> inject_faults(Communicator& inner, FaultInjector& injector);

}  // namespace lossgrid
