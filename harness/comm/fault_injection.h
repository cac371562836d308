// SPDX-License-Identifier: Apache-2.0
// Makes one rank misbehave at a chosen collective, so that the harness's own handling of failures
// can be tested: `--inject rank=2,call=3,kind=throw`.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "harness/comm/communicator.h"

namespace lossgrid {

enum class FaultKind {
  throws,  // "throw": an exception on this rank
  hangs,   // "hang": this rank never comes back
  leaves,  // "leave": this rank throws nothing and takes no further part
  dies,    // "die": the process ends at once
};

struct Fault {
  int rank = 0;  // of the world
  int call = 1;  // the n-th collective that the rank enters, from 1;
                 // `split` does not count
  FaultKind kind = FaultKind::throws;
};

/// Reads "rank=2,call=3,kind=throw|hang|leave|die"; only call may be missing. Throws Error(usage).
Fault parse_fault(std::string_view text);

/// Counts the collectives of one rank over all the communicators decorated with it.
class FaultInjector {
 public:
  FaultInjector(const Fault& fault, int world_rank) : fault_(fault), world_rank_(world_rank) {}
  /// Called before a collective; does what the fault says when its turn has come.
  void before_call(std::string_view what);

 private:
  Fault fault_;
  int world_rank_;
  int calls_ = 0;
};

/// Thrown by FaultKind::leaves through the body of a rank; the transport takes it as a return.
struct RankLeaves {};

/// Both arguments outlive the decorator.
std::unique_ptr<Communicator> inject_faults(Communicator& inner, FaultInjector& injector);

}  // namespace lossgrid
