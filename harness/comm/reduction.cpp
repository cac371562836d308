// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/reduction.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "harness/core/error.h"

namespace lossgrid {
namespace {

template <typename T>
T add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {  // wraps, which signed overflow must not
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return a + b;
  }
}

// A NaN compares unequal to itself; the first one stays.
template <typename T>
T larger(T a, T b) {
  return a != a || !(b > a || b != b) ? a : b;  // NOLINT(misc-redundant-expression)
}
template <typename T>
T smaller(T a, T b) {
  return a != a || !(b < a || b != b) ? a : b;  // NOLINT(misc-redundant-expression)
}

template <typename T, typename F>
void combine_blocks(std::span<const std::byte* const> sources, std::size_t begin, std::size_t count,
                    T* out, F combine) {
  constexpr std::size_t kBlock = 512;
  std::array<T, kBlock> block;
  for (std::size_t at = 0; at < count; at += kBlock) {
    const std::size_t n = std::min(kBlock, count - at);
    std::copy_n(reinterpret_cast<const T*>(sources[0]) + begin + at, n, block.begin());
    for (const std::byte* source : sources.subspan(1)) {
      const T* values = reinterpret_cast<const T*>(source) + begin + at;
      for (std::size_t i = 0; i < n; ++i) block[i] = combine(block[i], values[i]);
    }
    std::copy_n(block.begin(), n, out + at);
  }
}

template <typename T>
void reduce(std::span<const std::byte* const> sources, std::size_t begin, std::size_t count,
            ReduceOp op, void* out) {
  T* target = static_cast<T*>(out);
  switch (op) {
    case ReduceOp::sum:
      return combine_blocks(sources, begin, count, target, [](T a, T b) { return add(a, b); });
    case ReduceOp::max:
      return combine_blocks(sources, begin, count, target, [](T a, T b) { return larger(a, b); });
    case ReduceOp::min:
      return combine_blocks(sources, begin, count, target, [](T a, T b) { return smaller(a, b); });
  }
}

}  // namespace

bool can_reduce(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::i64 || dtype == DType::i32;
}

void require_reducible(std::string_view operation, DType dtype) {
  if (can_reduce(dtype)) return;
  throw Error(ErrorCode::internal, fmt::format("{} of {}: reductions take f64, f32, i64 and i32",
                                               operation, name(dtype)));
}

void reduce_in_order(std::span<const std::byte* const> sources, std::size_t begin,
                     std::size_t count, DType dtype, ReduceOp op, void* out) {
  switch (dtype) {
    case DType::f64:
      return reduce<double>(sources, begin, count, op, out);
    case DType::f32:
      return reduce<float>(sources, begin, count, op, out);
    case DType::i64:
      return reduce<std::int64_t>(sources, begin, count, op, out);
    case DType::i32:
      return reduce<std::int32_t>(sources, begin, count, op, out);
    default:
      throw Error(ErrorCode::internal, fmt::format("no reduction of {}", name(dtype)));
  }
}

}  // namespace lossgrid
