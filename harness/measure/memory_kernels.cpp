// SPDX-License-Identifier: Apache-2.0
// A pass is divided among the threads in whole pages, so that parts keep the alignment of the
// buffer. A large pass is divided into pieces that threads take in turn, like rows of logits.
#include "harness/measure/memory_kernels.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "harness/device/kernel/rank_threads.h"
#include "harness/measure/memory_sweep.h"

namespace lossgrid {
namespace {

constexpr std::size_t kPageBytes = 4096;
// About a MiB, and a prime number of pages: threads whose addresses differ by a power of two
// collide in the banks of the memory, and rows of logits rarely have such a distance.
constexpr std::size_t kPieceBytes = 251 * kPageBytes;

constexpr std::array kOfRead{MemoryVariant::plain, MemoryVariant::prefetch,
                             MemoryVariant::eight_places};
constexpr std::array kOfCopy{MemoryVariant::plain, MemoryVariant::prefetch,
                             MemoryVariant::streaming, MemoryVariant::streaming_prefetch,
                             MemoryVariant::library};

}  // namespace

std::string_view name(MemoryKernel kernel) {
  constexpr std::array<std::string_view, 3> kNames{"read", "copy", "update"};
  return kNames[static_cast<std::size_t>(kernel)];
}

std::string_view name(MemoryVariant variant) {
  constexpr std::array<std::string_view, 7> kNames{
      "plain",   "prefetch",     "streaming", "streaming_prefetch",
      "library", "eight_places", "persistent"};
  return kNames[static_cast<std::size_t>(variant)];
}

std::span<const MemoryVariant> variants_of(MemoryKernel kernel) {
  const std::span<const MemoryVariant> of_copy(kOfCopy);
  switch (kernel) {
    case MemoryKernel::read:
      return kOfRead;
    case MemoryKernel::update:
      return of_copy.first(4);
    default:
      return of_copy;
  }
}

std::uint32_t run_memory_kernel(MemoryKernel kernel, MemoryVariant variant, const void* from,
                                void* to, std::size_t bytes) {
  const auto* in = static_cast<const std::byte*>(from);
  auto* out = static_cast<std::byte*>(to);
  const auto threads = static_cast<std::size_t>(rank_threads());
  const std::size_t part = (bytes / threads + kPageBytes) / kPageBytes * kPageBytes;
  const std::size_t piece = part > 32 * kPieceBytes ? kPieceBytes : part;
  std::atomic<std::uint32_t> sum{0};
  parallel_for(rank_threads(), [&](std::size_t first, std::size_t last) {
    for (std::size_t thread = first; thread < last; ++thread) {
      for (std::size_t begin = thread * piece; begin < bytes; begin += threads * piece) {
        sum += sweep_memory(kernel, variant, in, out, begin, std::min(begin + piece, bytes));
      }
    }
  });
  return sum;
}

}  // namespace lossgrid
