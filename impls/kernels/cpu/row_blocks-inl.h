// SPDX-License-Identifier: Apache-2.0
// Vectorised operations on blocks of one row of logits, compiled once for every instruction set. A
// block has at most kBlockSize elements; its results are relative to a shift, and the caller merges
// the blocks of a row. The order of every sum is fixed by these constants and the vector length, so
// that the bits are the same on every run.
//
// With t = (x - shift) log2(e), exp(x - shift) = 2^t. For shifts of ordinary size one operation
// computes t,
//   t = fma(x, L, -fl(shift L)),  L = fl(log2 e),
// which moves all t of the row by the same shift L - fl(shift L); the caller corrects for it. The
// rounding of L itself contributes only 0.22 u32 |x - shift|.
#if defined(LOSSGRID_ROW_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOSSGRID_ROW_BLOCKS_INL_H_
#undef LOSSGRID_ROW_BLOCKS_INL_H_
#else
#define LOSSGRID_ROW_BLOCKS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "harness/core/dtype.h"
#include "impls/kernels/cpu/vector_exp2-inl.h"

// Attributes that inline a lambda into the loop around it. By default GCC makes a function of a
// large lambda, and sums and constants go through memory.
#ifndef LOSSGRID_INLINED
#define LOSSGRID_INLINED HWY_ATTR __attribute__((always_inline))
#endif

HWY_BEFORE_NAMESPACE();
namespace lossgrid {
namespace HWY_NAMESPACE {

using Words = hn::RebindToUnsigned<Floats>;

// Elements of one step: each has its own float32 lane in the sums.
inline constexpr std::size_t kLanes = 64;
inline constexpr std::size_t kVectorSize = hn::MaxLanes(Floats());
inline constexpr std::size_t kVectors = kLanes / kVectorSize;
static_assert(kVectors % 2 == 0);
// A sum takes 16 additions per lane, then a tree of depth 6.
inline constexpr std::int64_t kBlockSize = 1024;

/// Calls f(k) for 0 <= k < kCount, with k a constant, so that sums in an array stay in registers;
/// in a loop over k GCC 12 keeps them in memory.
template <typename F, std::size_t... k>
HWY_INLINE void each_index(const F& f, std::index_sequence<k...>) {
  (f(std::integral_constant<std::size_t, k>()), ...);
}
template <std::size_t kCount, typename F>
HWY_INLINE void each_index(const F& f) {
  each_index(f, std::make_index_sequence<kCount>());
}

/// Calls f(k) for the vectors of a step.
template <typename F>
HWY_INLINE void each_vector(const F& f) {
#if HWY_TARGET == HWY_SCALAR  // 64 vectors: unrolled, they would be most of the machine code
  for (std::size_t k = 0; k < kVectors; ++k) f(k);
#else
  each_index<kVectors>(f);
#endif
}

inline constexpr float kLog2e = 1.44269504f;
// For larger shifts, shift L - fl(shift L) would not be small.
inline constexpr float kLargestFusedShift = 0x1p20f;

/// Parameters of 2^t relative to a shift.
struct Exponent {
  float shift;
  float scaled;  // fl(shift L)
  bool fused;

  explicit Exponent(float by)
      : shift(by),
        scaled(by * kLog2e),
        fused(HWY_NATIVE_FMA != 0 && std::abs(by) <= kLargestFusedShift) {}

  /// Returns the subtrahend of x L: shift L, rounded.
  double offset() const { return fused ? scaled : static_cast<double>(shift) * kLog2e; }
  /// Returns the rounding error of offset(): at most 0.0625, since fused shifts are at most 2^20.
  double rounding() const { return offset() - static_cast<double>(shift) * kLog2e; }
};

/// Returns 2^x for |x| <= 0.0625, to 2e-9: five terms of the series of exp.
HWY_INLINE double exp2_of_small(double x) {
  const double y = 0.693147180559945309 * x;
  return 1 + y * (1 + y * (1.0 / 2 + y * (1.0 / 6 + y * (1.0 / 24))));
}

template <bool kFused>
HWY_INLINE FloatVector distance(FloatVector x, FloatVector shift_or_scaled) {
  const FloatVector log2e = hn::Set(Floats(), kLog2e);
  if constexpr (kFused) return hn::MulSub(x, log2e, shift_or_scaled);
  return hn::Mul(hn::Sub(x, shift_or_scaled), log2e);
}

HWY_INLINE void load_lanes(const float* x, FloatVector (&out)[kVectors]) {
  for (std::size_t k = 0; k < kVectors; ++k) out[k] = hn::LoadU(Floats(), x + k * kVectorSize);
}

/// Loads even elements, then odd elements, of every two vectors. Any order works that store_lanes
/// shares.
HWY_INLINE void load_lanes(const bf16* x, FloatVector (&out)[kVectors]) {
#if HWY_TARGET == HWY_SCALAR  // its loads must be aligned
  for (std::size_t k = 0; k < kVectors; ++k) out[k] = hn::Set(Floats(), static_cast<float>(x[k]));
#else
  const Words words;
  const Floats floats;
  const auto* pairs = reinterpret_cast<const std::uint32_t*>(x);
  for (std::size_t k = 0; k < kVectors; k += 2) {
    const auto pair = hn::LoadU(words, pairs + k / 2 * kVectorSize);
    out[k] = hn::BitCast(floats, hn::ShiftLeft<16>(pair));
    out[k + 1] = hn::BitCast(floats, hn::And(pair, hn::Set(words, 0xFFFF0000u)));
  }
#endif
}

template <bool kStream>
HWY_INLINE void store_lanes(const FloatVector (&values)[kVectors], float* out) {
  for (std::size_t k = 0; k < kVectors; ++k) {
    if constexpr (kStream) {
      hn::Stream(values[k], Floats(), out + k * kVectorSize);
    } else {
      hn::StoreU(values[k], Floats(), out + k * kVectorSize);
    }
  }
}

/// Rounds to the 8 bits of bf16's significand (Veltkamp's splitting, in Dekker, "A floating-point
/// technique for extending the available precision", 1971): the lower half of the bits is 0. A
/// compiler that fuses the product and a difference breaks it.
HWY_INLINE hn::Vec<Words> rounded_to_bf16(FloatVector value) {
  const FloatVector large = hn::Mul(value, hn::Set(Floats(), 65537.0f));
  return hn::BitCast(Words(), hn::Sub(large, hn::Sub(large, value)));
}

#if HWY_TARGET <= HWY_AVX3
inline const bool kRoundsToBf16 = __builtin_cpu_supports("avx512bf16") != 0;

/// Rounds two vectors to bf16 and interleaves them, by an instruction for which Highway 1.0 has no
/// target.
HWY_INLINE hn::Vec<Words> pairs_by_instruction(FloatVector even, FloatVector odd) {
  alignas(64) static constexpr std::uint16_t kInterleaved[32] = {
      0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  __m512i halves;
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(halves) : "v"(even.raw), "v"(odd.raw));
  return hn::Vec<Words>{_mm512_permutexvar_epi16(_mm512_load_si512(kInterleaved), halves)};
}
#endif

/// Rounds two vectors to bf16 and interleaves them.
HWY_INLINE hn::Vec<Words> rounded_pairs(FloatVector even, FloatVector odd) {
#if HWY_TARGET <= HWY_AVX3
  if (kRoundsToBf16) return pairs_by_instruction(even, odd);
#endif
  return hn::Or(hn::ShiftRight<16>(rounded_to_bf16(even)), rounded_to_bf16(odd));
}

template <bool kStream>
HWY_INLINE void store_lanes(const FloatVector (&values)[kVectors], bf16* out) {
#if HWY_TARGET == HWY_SCALAR
  for (std::size_t k = 0; k < kVectors; ++k) out[k] = static_cast<bf16>(hn::GetLane(values[k]));
#else
  const Words words;
  auto* pairs = reinterpret_cast<std::uint32_t*>(out);
  for (std::size_t k = 0; k < kVectors; k += 2) {
    const auto pair = rounded_pairs(values[k], values[k + 1]);
    if constexpr (kStream) {
      hn::Stream(pair, words, pairs + k / 2 * kVectorSize);
    } else {
      hn::StoreU(pair, words, pairs + k / 2 * kVectorSize);
    }
  }
#endif
}

/// Prefetches the lines of kLanes elements, `ahead` elements further, into the second cache, for
/// reads or also for writes.
template <bool kWrite = false, typename T>
HWY_INLINE void prefetch_lanes(const T* x, std::int64_t ahead) {
  constexpr std::size_t kLineElements = 64 / sizeof(T);
  for (std::size_t k = 0; k < kLanes; k += kLineElements) {
    __builtin_prefetch(x + ahead + k, kWrite ? 1 : 0, 2);
  }
}

/// Returns the sum of vectors kFirst, kFirst + kStride, ..., by a tree.
template <std::size_t kFirst = 0, std::size_t kStride = 1>
HWY_INLINE FloatVector sum_of_vectors(const FloatVector (&lanes)[kVectors]) {
  if constexpr (kStride == kVectors) {
    return lanes[kFirst];
  } else {
    return hn::Add(sum_of_vectors<kFirst, 2 * kStride>(lanes),
                   sum_of_vectors<kFirst + kStride, 2 * kStride>(lanes));
  }
}

HWY_INLINE float tree_sum(const FloatVector (&lanes)[kVectors]) {
  return hn::GetLane(hn::SumOfLanes(Floats(), sum_of_vectors(lanes)));
}

/// Last, incomplete lanes of a row, filled up with -inf.
template <typename T>
struct Tail {
  alignas(64) T elements[kLanes];

  Tail(const T* x, std::int64_t count) {
    std::copy_n(x, count, elements);
    std::fill(elements + count, elements + kLanes, T(-std::numeric_limits<float>::infinity()));
  }
};

/// Returns the largest of `count` elements; -inf without elements.
template <typename T>
HWY_INLINE float largest_of(const T* x, std::int64_t count, std::int64_t ahead) {
  FloatVector largest = hn::Set(Floats(), -std::numeric_limits<float>::infinity());
  FloatVector values[kVectors];
  std::int64_t i = 0;
  for (; i + static_cast<std::int64_t>(kLanes) <= count; i += kLanes) {
    prefetch_lanes(x + i, ahead);
    load_lanes(x + i, values);
    for (const FloatVector value : values) largest = hn::Max(largest, value);
  }
  if (i < count) {
    const Tail<T> tail(x + i, count - i);
    load_lanes(tail.elements, values);
    for (const FloatVector value : values) largest = hn::Max(largest, value);
  }
  return hn::GetLane(hn::MaxOfLanes(Floats(), largest));
}

/// Returns the sum of 2^t over `count` elements, a multiple of kLanes, at most kBlockSize.
template <bool kFused, typename T>
HWY_INLINE float sum_block(const T* x, std::int64_t count, float by, std::int64_t ahead) {
  const Floats d;
  const FloatVector shift = hn::Set(d, by);
  FloatVector sums[kVectors];
  each_vector([&](auto k) LOSSGRID_INLINED { sums[k] = hn::Zero(d); });
  for (std::int64_t i = 0; i < count; i += kLanes) {
    FloatVector values[kVectors];
    prefetch_lanes(x + i, ahead);
    load_lanes(x + i, values);
    each_vector([&](auto k)
                    LOSSGRID_INLINED { add_exp2(distance<kFused>(values[k], shift), sums[k]); });
  }
  return tree_sum(sums);
}

/// Sums of 2^t and of 2^t t, the smallest element that is not -inf, and the largest element.
struct AllOfBlock {
  float sum;
  float weighted;
  float min;
  float max;
};

// 2^t t is a number for elements above this.
inline constexpr float kLeastOrdinary = -1e37f;

/// With `kOrdinary` the result counts only if all elements are above kLeastOrdinary, as the
/// smallest element shows.
template <bool kFused, bool kOrdinary, typename T>
HWY_INLINE AllOfBlock all_of_block(const T* x, std::int64_t count, float by, std::int64_t ahead) {
  const Floats d;
  const FloatVector shift = hn::Set(d, by);
  const FloatVector infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  const FloatVector nothing = hn::Neg(infinity);
  FloatVector sums[kVectors];
  FloatVector weighted[kVectors];
  each_vector([&](auto k) LOSSGRID_INLINED { sums[k] = weighted[k] = hn::Zero(d); });
  FloatVector min = infinity;
  FloatVector max = nothing;
  for (std::int64_t i = 0; i < count; i += kLanes) {
    FloatVector values[kVectors];
    prefetch_lanes(x + i, ahead);
    load_lanes(x + i, values);
    each_vector([&](auto k) LOSSGRID_INLINED {
      max = hn::Max(max, values[k]);
      FloatVector t = distance<kFused>(values[k], shift);
      if constexpr (kOrdinary) {
        min = hn::Min(min, values[k]);
      } else {
        min = hn::Min(min, hn::IfThenElse(hn::Eq(values[k], nothing), infinity, values[k]));
        // 2^t is 0 below -126, but 0 times infinity would be NaN.
        t = at_least(hn::Set(d, -200.0f), t);
      }
      const FloatVector power = add_exp2(t, sums[k]);
      weighted[k] = hn::MulAdd(power, t, weighted[k]);
    });
  }
  return {tree_sum(sums), tree_sum(weighted), hn::GetLane(hn::MinOfLanes(d, min)),
          hn::GetLane(hn::MaxOfLanes(d, max))};
}

/// out := 2^t factor, for `count` elements, a multiple of kLanes; out may be x.
template <bool kFused, bool kStream, typename T>
HWY_INLINE void scaled_block(const T* x, std::int64_t count, float by, float factor,
                             std::int64_t ahead, T* out) {
  const Floats d;
  const FloatVector shift = hn::Set(d, by);
  const ScaledExp2 scaled_exp2(factor);
  for (std::int64_t i = 0; i < count; i += kLanes) {
    FloatVector values[kVectors];
    prefetch_lanes(x + i, ahead);
    load_lanes(x + i, values);
    for (FloatVector& value : values) value = scaled_exp2(distance<kFused>(value, shift));
    store_lanes<kStream>(values, out + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lossgrid
HWY_AFTER_NAMESPACE();

#endif
