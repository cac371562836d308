// SPDX-License-Identifier: Apache-2.0
// `HeapWatch`: count of large allocations from the heap (malloc and its relatives, operator new) by
// the threads that work for one rank. A thread counts its allocations inside a HeapWatchScope;
// outside of all scopes an allocation costs the test of a pointer. To count, heap_watch.cpp
// replaces malloc of the executable, or is called back by the sanitizer of the build.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lossgrid {

class HeapWatch {
 public:
  /// Makes a count of allocations of at least `least_bytes`.
  explicit HeapWatch(std::size_t least_bytes) : least_bytes_(least_bytes) {}

  std::size_t least_bytes() const { return least_bytes_; }
  std::int64_t allocations() const { return allocations_; }
  std::int64_t largest_bytes() const { return largest_bytes_; }

  /// Called for every allocation of a thread that watches; allocates nothing.
  void note(std::size_t bytes) noexcept;

 private:
  std::size_t least_bytes_;
  // Threads of one rank count together.
  std::atomic<std::int64_t> allocations_{0};
  std::atomic<std::int64_t> largest_bytes_{0};
};

/// Returns the watch of this thread; null if the thread has no watch.
HeapWatch* heap_watch() noexcept;

/// Scope in which `watch` counts the allocations of this thread. With null, nothing is counted, for
/// memory that belongs to no implementation.
class HeapWatchScope {
 public:
  explicit HeapWatchScope(HeapWatch* watch) noexcept;
  ~HeapWatchScope();
  HeapWatchScope(const HeapWatchScope&) = delete;
  HeapWatchScope& operator=(const HeapWatchScope&) = delete;

 private:
  HeapWatch* outer_;
};

}  // namespace lossgrid
