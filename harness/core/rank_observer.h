// SPDX-License-Identifier: Apache-2.0
// Who looks on while a rank works, for --trace and --memory-snapshot: told of its steps, phases,
// collectives and buffers where they happen. Each thread has its own observer or, as a rule, none:
// then each of these places costs the test of a pointer.
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

/// All are called by the thread of the rank.
class RankObserver {
 public:
  virtual ~RankObserver() = default;
  /// The rank begins a step: a microbatch of a trial, a round of a timing; from 0.
  virtual void begin_step(std::int64_t step) = 0;
  /// May come without a begin: then it says nothing.
  virtual void end_step() = 0;
  /// Ends the phase before, if it is another one.
  virtual void begin_phase(std::string_view phase) = 0;
  virtual void end_phase() = 0;
  virtual void enter_call(const ObservedCall& call) = 0;
  /// Not called for a collective that throws.
  virtual void leave_call() = 0;
  virtual void allocated(std::string_view tag, const std::byte* address, std::size_t bytes) = 0;
  virtual void released(std::string_view tag, const std::byte* address,
                        std::size_t bytes) noexcept = 0;
};

/// The observer of this thread, null for none.
RankObserver* rank_observer() noexcept;

/// Makes `observer` that of this thread until its end.
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
