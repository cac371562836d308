// SPDX-License-Identifier: Apache-2.0
// Fibers: the threads of one block of a CUDA kernel, each with a stack of its own, on one thread of
// the processor. A fiber runs until it comes to a barrier or a shuffle; which one is next is drawn.
// Threads that wait at different places, or for threads that have ended, are an error. In builds
// with the sanitizer of threads fibers are threads to it, which only barriers bring in order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>

namespace lossgrid {

/// A place in the code at which threads wait for each other: in a function of a block, called from
/// `outer`.
struct WaitPlace {
  std::source_location at;
  std::source_location outer;
};

class Fibers {
 public:
  ~Fibers();

  /// Returns the fibers of the calling thread.
  static Fibers& of_this_thread();

  /// Runs body(thread) of every thread of a block. `seed`: of the order. Throws internal if the
  /// threads cannot go on, with the places where they wait.
  void run(std::uint64_t seed, const std::function<void(int)>& body);

  // For the code of a fiber:

  /// Returns the thread whose code runs.
  int thread() const;
  /// Waits for all threads of the block at the same place.
  void wait_for_block(const WaitPlace& place);
  /// Waits for all threads of the warp at the same place. Orders no accesses to memory.
  void wait_for_warp(const WaitPlace& place);

 private:
  struct State;
  Fibers();

  const std::unique_ptr<State> state_;
};

}  // namespace lossgrid
