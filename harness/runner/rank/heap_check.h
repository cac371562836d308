// SPDX-License-Identifier: Apache-2.0
// `HeapCheck`: invariant that an implementation takes its memory from the device, which accounts
// for it, and not from the heap. Watches the phases of one pack on one rank. Below a row of the
// vocabulary or of hidden states the heap is free, and so it is for tables by token and for the
// objects of a plan: they are smaller than 64 bytes a token or 4 KiB.
#pragma once

#include <string>

#include "harness/core/process/heap_watch.h"
#include "harness/runner/rank/pack_findings.h"

namespace lossgrid {

/// Returns the size from which an allocation from the heap counts.
std::size_t least_heap_bytes(const LossProblem& problem);

class HeapCheck {
 public:
  HeapCheck(const LossProblem& problem, const ImplementationTraits& traits, std::int64_t rank);

  /// Runs a phase on this thread, and notes what it took from the heap.
  template <typename F>
  void watch(const std::string& phase, F&& body) {
    HeapWatch heap(least_bytes_);
    {
      const HeapWatchScope scope(not_run_.empty() ? &heap : nullptr);
      body();
    }
    note(phase, heap);
  }

  /// Adds the invariant of the phases so far.
  void add_to(PackFindings& findings) const;

 private:
  void note(const std::string& phase, const HeapWatch& heap);

  std::size_t least_bytes_;
  std::int64_t rank_;
  std::string not_run_;  // reason; empty: it is watched
  std::string found_;    // in the first phase that took memory; empty: none did
};

}  // namespace lossgrid
