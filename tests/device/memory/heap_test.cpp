// SPDX-License-Identifier: Apache-2.0
// Tests of the heap memory that a device, its kernels and its threads take in the name of a rank.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "harness/core/process/heap_watch.h"
#include "harness/device/backend.h"
#include "harness/device/gemm.h"
#include "harness/device/kernel/rank_threads.h"
#include "harness/device/memory/host_view.h"
#include "harness/device/memory/staging.h"

namespace lossgrid {
namespace {

constexpr std::size_t kLarge = 100'000;

TEST(Heap, MemoryOfADeviceIsNotCounted) {
  for (const Backend backend : {Backend::cpu, Backend::cuda_emulated}) {
    const std::unique_ptr<Device> device = make_device(backend, 0);
    HeapWatch watch(kLarge);
    const HeapWatchScope scope(&watch);
    const Buffer buffer = device->allocate(2 * kLarge, "tensor", MemorySpace::device);
    Staging staging(*device);
    staging.at_least(3 * kLarge);
    const HostView view(buffer);
    EXPECT_EQ(watch.allocations(), 0) << name(backend);
  }
}

TEST(Heap, AProductIsNotCounted) {
  const std::int64_t size = 256;
  const std::vector<float> a(static_cast<std::size_t>(size * size), 1.0f);
  std::vector<float> c(a.size());
  HeapWatch watch(1);
  const HeapWatchScope scope(&watch);
  cpu_kernels().gemm({.m = size,
                      .n = size,
                      .k = size,
                      .a = {DType::f32, a.data(), size, false},
                      .b = {DType::f32, a.data(), size, true},
                      .c = c.data(),
                      .stride = size},
                     {});
  EXPECT_EQ(watch.allocations(), 0);
  EXPECT_EQ(c[0], 256.0f);
}

TEST(Heap, ThreadsOfARankCountAsTheRank) {
  set_rank_threads(2);
  std::atomic<std::int64_t> parts{0};
  HeapWatch watch(kLarge);
  {
    const HeapWatchScope scope(&watch);
    parallel_for(2, [&](std::int64_t, std::int64_t) {
      const std::vector<char> hidden(kLarge);
      parts += hidden.empty() ? 0 : 1;
    });
    EXPECT_EQ(heap_watch(), &watch);
  }
  EXPECT_EQ(watch.allocations(), parts.load());
}

TEST(Heap, TheTeamOfARankIsNotCounted) {
  // Reads the cores of this process, which the thread below would else do outside of the scope.
  set_rank_threads(2);
  HeapWatch watch(1);
  std::thread([&] {  // a new thread has no team yet
    set_rank_threads(2);
    const HeapWatchScope scope(&watch);
    parallel_for(2, [](std::int64_t, std::int64_t) {});
  })
      .join();
  EXPECT_EQ(watch.allocations(), 0);
}

}  // namespace
}  // namespace lossgrid
