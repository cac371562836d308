// SPDX-License-Identifier: Apache-2.0
#include "harness/core/process/heap_watch.h"

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <malloc.h>

#include "harness/core/process/sanitizers.h"

namespace lossgrid {
namespace {

constexpr std::size_t kLarge = 100'000;

/// Keeps the compiler from leaving out an allocation that nothing reads.
void* volatile escaped = nullptr;

void take_and_release(void* block) {
  escaped = block;
  std::free(escaped);
}

/// Returns the number of allocations of at least kLarge bytes by `body`.
template <typename F>
std::int64_t counted(F&& body) {
  HeapWatch watch(kLarge);
  const HeapWatchScope scope(&watch);
  body();
  return watch.allocations();
}

TEST(HeapWatch, CountsEveryWayToTheHeap) {
  EXPECT_EQ(counted([] { take_and_release(std::malloc(kLarge)); }), 1);
  EXPECT_EQ(counted([] { take_and_release(std::calloc(kLarge / 8, 8)); }), 1);
  EXPECT_EQ(counted([] { take_and_release(std::realloc(std::malloc(1), kLarge)); }), 1);
  EXPECT_EQ(counted([] {
              escaped = ::operator new(kLarge);
              ::operator delete(escaped);
            }),
            1);
  EXPECT_EQ(counted([] { escaped = std::vector<float>(kLarge / 4).data(); }), 1);
}

#if !LOSSGRID_TSAN  // the sanitizer does not call back for these
TEST(HeapWatch, CountsAlignedMemory) {
  EXPECT_EQ(counted([] { take_and_release(std::aligned_alloc(64, kLarge / 64 * 64 + 64)); }), 1);
  EXPECT_EQ(counted([] { take_and_release(memalign(64, kLarge)); }), 1);
  EXPECT_EQ(counted([] {
              void* block = nullptr;
              EXPECT_EQ(posix_memalign(&block, 64, kLarge), 0);
              take_and_release(block);
            }),
            1);
  constexpr std::align_val_t kAligned{64};
  EXPECT_EQ(counted([&] {
              escaped = ::operator new(kLarge, kAligned);
              ::operator delete(escaped, kAligned);
            }),
            1);
}
#endif

TEST(HeapWatch, CountsFromItsSizeOnAndKeepsTheLargest) {
  HeapWatch watch(kLarge);
  const HeapWatchScope scope(&watch);
  take_and_release(std::malloc(kLarge - 1));
  EXPECT_EQ(watch.allocations(), 0);
  EXPECT_EQ(watch.largest_bytes(), 0);
  take_and_release(std::malloc(2 * kLarge));
  take_and_release(std::malloc(kLarge));
  EXPECT_EQ(watch.allocations(), 2);
  EXPECT_EQ(watch.largest_bytes(), 2 * static_cast<std::int64_t>(kLarge));
}

TEST(HeapWatch, CountsOfItsThreadAndOfTheInnermostScopeAlone) {
  EXPECT_EQ(heap_watch(), nullptr);
  EXPECT_EQ(counted([] {
              const HeapWatchScope unwatched(nullptr);
              take_and_release(std::malloc(kLarge));
            }),
            0);
  EXPECT_EQ(counted([] {
              { const HeapWatchScope unwatched(nullptr); }
              take_and_release(std::malloc(kLarge));
            }),
            1);
  EXPECT_EQ(counted([] { std::thread([] { take_and_release(std::malloc(kLarge)); }).join(); }), 0);
  EXPECT_EQ(counted([] {
              HeapWatch* const of_caller = heap_watch();
              std::thread([of_caller] {
                const HeapWatchScope scope(of_caller);
                take_and_release(std::malloc(kLarge));
              }).join();
            }),
            1);
  EXPECT_EQ(heap_watch(), nullptr);
}

TEST(HeapWatch, LeavesTheRulesOfPosixMemalign) {
  void* block = nullptr;
#if !LOSSGRID_ASAN && !LOSSGRID_TSAN  // these end the process
  EXPECT_EQ(posix_memalign(&block, 3, 64), EINVAL);
  EXPECT_EQ(posix_memalign(&block, 4, 64), EINVAL);
  EXPECT_EQ(block, nullptr);
#endif
  EXPECT_EQ(posix_memalign(&block, 256, 64), 0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 256, 0u);
  std::free(block);
}

}  // namespace
}  // namespace lossgrid
