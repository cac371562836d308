// SPDX-License-Identifier: Apache-2.0
// Compiled once for each set of instructions: Highway includes this file again for every target.
// Several vectors a step, summed in four accumulators, so that no addition waits for another one.
// Integer arithmetic: its cost does not depend on the values, and sums are exact in every order.
#include "harness/measure/memory_sweep.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/measure/memory_sweep.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // before highway.h
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lossgrid {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::uint32_t kSignBit = 0x80000000u;
constexpr std::size_t kAheadBytes = 4096;
constexpr std::size_t kLineBytes = 64;

/// Processes the words after the last whole step, one by one.
template <MemoryKernel kernel>
std::uint32_t sweep_rest(const std::byte* from, std::byte* to, std::size_t begin, std::size_t end) {
  if constexpr (kernel == MemoryKernel::copy) {
    if (begin < end) std::memcpy(to + begin, from + begin, end - begin);
    return 0;
  }
  std::uint32_t sum = 0;
  for (std::size_t at = begin; at + 4 <= end; at += 4) {
    std::uint32_t word;
    std::memcpy(&word, (kernel == MemoryKernel::read ? from : to) + at, 4);
    sum += word;
    word ^= kSignBit;
    if constexpr (kernel == MemoryKernel::update) std::memcpy(to + at, &word, 4);
  }
  return kernel == MemoryKernel::read ? sum : 0;
}

template <MemoryKernel kernel, bool kPrefetch, bool kStream>
HWY_ATTR std::uint32_t sweep(const std::byte* from, std::byte* to, std::size_t begin,
                             std::size_t end) {
  const hn::ScalableTag<std::uint32_t> d;
  const std::size_t width = hn::Lanes(d) * sizeof(std::uint32_t);
  const std::byte* in = kernel == MemoryKernel::update ? to : from;
  const auto load = [&](std::size_t at) HWY_ATTR {
    return hn::LoadU(d, reinterpret_cast<const std::uint32_t*>(in + at));
  };
  const auto store = [&](auto v, std::size_t at) HWY_ATTR {
    auto* out = reinterpret_cast<std::uint32_t*>(to + at);
    if constexpr (kStream) {
      hn::Stream(v, d, out);
    } else {
      hn::StoreU(v, d, out);
    }
  };
  const auto sign = hn::Set(d, kSignBit);
  auto sum0 = hn::Zero(d);
  auto sum1 = hn::Zero(d);
  auto sum2 = hn::Zero(d);
  auto sum3 = hn::Zero(d);
  std::size_t at = begin;
  for (; at + 4 * width <= end; at += 4 * width) {
    if constexpr (kPrefetch) {
      for (std::size_t line = 0; line < 4 * width; line += kLineBytes) {
        __builtin_prefetch(in + at + kAheadBytes + line, 0, 2);
      }
    }
    auto v0 = load(at);
    auto v1 = load(at + width);
    auto v2 = load(at + 2 * width);
    auto v3 = load(at + 3 * width);
    if constexpr (kernel == MemoryKernel::read) {
      sum0 = hn::Add(sum0, v0);
      sum1 = hn::Add(sum1, v1);
      sum2 = hn::Add(sum2, v2);
      sum3 = hn::Add(sum3, v3);
      continue;
    }
    if constexpr (kernel == MemoryKernel::update) {
      v0 = hn::Xor(v0, sign);
      v1 = hn::Xor(v1, sign);
      v2 = hn::Xor(v2, sign);
      v3 = hn::Xor(v3, sign);
    }
    store(v0, at);
    store(v1, at + width);
    store(v2, at + 2 * width);
    store(v3, at + 3 * width);
  }
  if constexpr (kStream) hwy::FlushStream();
  HWY_ALIGN std::uint32_t lanes[HWY_MAX_BYTES / sizeof(std::uint32_t)];
  hn::Store(hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3)), d, lanes);
  return std::accumulate(lanes, lanes + hn::Lanes(d), sweep_rest<kernel>(from, to, at, end));
}

/// Returns the sum of whole vectors, read side by side from eight parts of equal length, and of the
/// words after the parts.
HWY_ATTR std::uint32_t read_eight_places(const std::byte* from, std::size_t begin,
                                         std::size_t end) {
  constexpr std::size_t kPlaces = 8;
  const hn::ScalableTag<std::uint32_t> d;
  const std::size_t width = hn::Lanes(d) * sizeof(std::uint32_t);
  const std::size_t length = begin < end ? (end - begin) / (kPlaces * width) * width : 0;
  const auto load = [&](std::size_t place, std::size_t at) HWY_ATTR {
    return hn::LoadU(d, reinterpret_cast<const std::uint32_t*>(from + begin + place * length + at));
  };
  auto sum0 = hn::Zero(d);
  auto sum1 = hn::Zero(d);
  auto sum2 = hn::Zero(d);
  auto sum3 = hn::Zero(d);
  for (std::size_t at = 0; at < length; at += width) {
    sum0 = hn::Add(sum0, hn::Add(load(0, at), load(4, at)));
    sum1 = hn::Add(sum1, hn::Add(load(1, at), load(5, at)));
    sum2 = hn::Add(sum2, hn::Add(load(2, at), load(6, at)));
    sum3 = hn::Add(sum3, hn::Add(load(3, at), load(7, at)));
  }
  HWY_ALIGN std::uint32_t lanes[HWY_MAX_BYTES / sizeof(std::uint32_t)];
  hn::Store(hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3)), d, lanes);
  const std::size_t rest = begin + kPlaces * length;
  return std::accumulate(lanes, lanes + hn::Lanes(d),
                         sweep_rest<MemoryKernel::read>(from, nullptr, rest, end));
}

template <MemoryKernel kernel>
std::uint32_t sweep_variant(MemoryVariant variant, const std::byte* from, std::byte* to,
                            std::size_t begin, std::size_t end) {
  switch (variant) {
    case MemoryVariant::prefetch:
      return sweep<kernel, true, false>(from, to, begin, end);
    case MemoryVariant::streaming:
      return sweep<kernel, false, true>(from, to, begin, end);
    case MemoryVariant::streaming_prefetch:
      return sweep<kernel, true, true>(from, to, begin, end);
    default:
      return sweep<kernel, false, false>(from, to, begin, end);
  }
}

std::uint32_t sweep_kernel(MemoryKernel kernel, MemoryVariant variant, const std::byte* from,
                           std::byte* to, std::size_t begin, std::size_t end) {
  switch (kernel) {
    case MemoryKernel::copy:
      return sweep_variant<MemoryKernel::copy>(variant, from, to, begin, end);
    case MemoryKernel::update:
      return sweep_variant<MemoryKernel::update>(variant, from, to, begin, end);
    default:
      return variant == MemoryVariant::eight_places
                 ? read_eight_places(from, begin, end)
                 : sweep_variant<MemoryKernel::read>(variant, from, to, begin, end);
  }
}

const char* target_name() {
  return hwy::TargetName(HWY_TARGET);
}

}  // namespace HWY_NAMESPACE
}  // namespace lossgrid
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lossgrid {

namespace {
constexpr std::size_t kAlignment = 64;  // alignment of streaming stores of the widest vectors
}

HWY_EXPORT(sweep_kernel);
HWY_EXPORT(target_name);

std::uint32_t sweep_memory(MemoryKernel kernel, MemoryVariant variant, const std::byte* from,
                           std::byte* to, std::size_t begin, std::size_t end) {
  if (variant == MemoryVariant::library) {
    if (begin < end) std::memcpy(to + begin, from + begin, end - begin);
    return 0;
  }
  const bool streams =
      variant == MemoryVariant::streaming || variant == MemoryVariant::streaming_prefetch;
  const std::size_t behind = (reinterpret_cast<std::uintptr_t>(to) + begin) % kAlignment;
  if (streams && behind != 0) {
    const std::size_t head = behind % 4 == 0 ? std::min(begin + kAlignment - behind, end) : end;
    const std::uint32_t sum = sweep_memory(kernel, MemoryVariant::plain, from, to, begin, head);
    return head == end ? sum : sum + sweep_memory(kernel, variant, from, to, head, end);
  }
  return HWY_DYNAMIC_DISPATCH(sweep_kernel)(kernel, variant, from, to, begin, end);
}

std::string_view memory_sweep_target() {
  return HWY_DYNAMIC_DISPATCH(target_name)();
}

}  // namespace lossgrid
#endif
