// SPDX-License-Identifier: Apache-2.0
// RankObserver: hooks of --trace and --memory-snapshot into the work of a rank, called at its
// steps, phases, collectives and allocations. A thread has its own observer or, by default, no
// observer: then a hook costs the test of a pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lossgrid {

/// A collective, or "split", as one rank calls it.
struct ObservedCall {
  std::string_view operation;
  std::string_view group;    // name of the communicator
  int ranks = 1;             // ranks of the group
  std::uint64_t number = 0;  // position among the calls of the communicator, from 1
  std::string_view dtype;
  std::size_t count = 0;          // elements
  std::size_t payload_bytes = 0;  // bytes of the tensor argument, see counting_communicator.h
};

/// Interface of observers. The thread of the rank makes all calls.
class RankObserver {
 public:
  virtual ~RankObserver() = default;
  /// Called at the begin of a step (a microbatch of a trial, a round of a timing), numbered from 0.
  virtual void begin_step(std::int64_t step) = 0;
  /// Called at the end of a step. Requires an earlier begin_step.
  virtual void end_step() = 0;
  /// Called at the begin of a phase. Ends the phase before, if its name differs.
  virtual void begin_phase(std::string_view phase) = 0;
  virtual void end_phase() = 0;
  virtual void enter_call(const ObservedCall& call) = 0;
  /// Called after a collective that did not throw.
  virtual void leave_call() = 0;
  virtual void allocated(std::string_view tag, const std::byte* address, std::size_t bytes) = 0;
  virtual void released(std::string_view tag, const std::byte* address,
                        std::size_t bytes) noexcept = 0;
};

/// Returns the observer of this thread; null if the thread has no observer.
RankObserver* rank_observer() noexcept;

/// Scope in which `observer` is the observer of this thread.
class ObserverScope {
 public:
  explicit ObserverScope(RankObserver& observer) noexcept;
  ~ObserverScope();
  ObserverScope(const ObserverScope&) = delete;
  ObserverScope& operator=(const ObserverScope&) = delete;

 private:
  RankObserver* outer_;
};

}  // namespace lossgrid
