// SPDX-License-Identifier: Apache-2.0
// RankObserver: hooks of --trace and --memory-snapshot into the work of a rank, called at its
// steps, phases, collectives and allocations. Each thread has its own observer or, by default,
// none: then each of these places costs the test of a pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lossgrid {

/// A collective, or "split", as one rank calls it.
struct ObservedCall {
  std::string_view operation;
  std::string_view group;    // name of the communicator
  int ranks = 1;             // of the group
  std::uint64_t number = 0;  // from 1, within the communicator
  std::string_view dtype;
  std::size_t count = 0;          // elements
  std::size_t payload_bytes = 0;  // of the tensor argument, see counting_communicator.h
};

/// Interface of observers. The thread of the rank makes all calls.
class RankObserver {
 public:
  virtual ~RankObserver() = default;
  /// Called at the begin of a step: a microbatch of a trial, a round of a timing; from 0.
  virtual void begin_step(std::int64_t step) = 0;
  /// Called at the end of a step. Without a begin before it, it has no meaning.
  virtual void end_step() = 0;
  /// Called at the begin of a phase, which ends the one before if it is another one.
  virtual void begin_phase(std::string_view phase) = 0;
  virtual void end_phase() = 0;
  virtual void enter_call(const ObservedCall& call) = 0;
  /// Called after a collective that did not throw.
  virtual void leave_call() = 0;
  virtual void allocated(std::string_view tag, const std::byte* address, std::size_t bytes) = 0;
  virtual void released(std::string_view tag, const std::byte* address,
                        std::size_t bytes) noexcept = 0;
};

/// Returns the observer of this thread, null for none.
RankObserver* rank_observer() noexcept;

/// Scope in which `observer` is that of this thread.
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
