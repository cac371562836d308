// SPDX-License-Identifier: Apache-2.0
// Vectorised operations on a block of transformed logits (row_transform.h), compiled once for every
// instruction set. A block is read once, as float32 into memory that stays in the first cache; all
// further operations work on this memory, so that they need no variant for every dtype, transform
// and set of terms. Distances are z - shift in natural units.
#if defined(LOSSGRID_TERM_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOSSGRID_TERM_BLOCKS_INL_H_
#undef LOSSGRID_TERM_BLOCKS_INL_H_
#else
#define LOSSGRID_TERM_BLOCKS_INL_H_
#endif

#include <span>

#include "harness/problem/values/row_transform.h"
#include "impls/kernels/cpu/row_blocks-inl.h"
#include "impls/kernels/cpu/vector_tanh-inl.h"
#include "impls/kernels/row_gradient.h"

HWY_BEFORE_NAMESPACE();
namespace lossgrid {
namespace HWY_NAMESPACE {

/// Logits of a block, whole lanes, filled up with -inf. The order within kLanes elements is that of
/// load_lanes.
struct TermBlock {
  alignas(64) float z[kBlockSize];
  alignas(64) float slope[kBlockSize];  // z' / factor, for rows with a limit
  std::int64_t size = 0;
};

HWY_INLINE FloatVector minus_infinity() {
  return hn::Set(Floats(), -std::numeric_limits<float>::infinity());
}

/// z = x.
struct SameLanes {
  HWY_INLINE void operator()(FloatVector x, float* z, float* /*slope*/) const {
    hn::Store(x, Floats(), z);
  }
};

/// z = factor x. No finite x becomes -inf.
struct ScaledLanes {
  float factor;

  HWY_INLINE void operator()(FloatVector x, float* z, float* /*slope*/) const {
    const Floats d;
    const FloatVector least = hn::Min(x, hn::Set(d, std::numeric_limits<float>::lowest()));
    hn::Store(at_least(least, hn::Mul(x, hn::Set(d, factor))), d, z);
  }
};

/// z = limit tanh(factor x / limit).
struct CappedLanes {
  float limit;
  float factor_of_limit;

  HWY_INLINE void operator()(FloatVector x, float* z, float* slope) const {
    const Floats d;
    const FloatVector one = hn::Set(d, 1.0f);
    const FloatVector tanh = tanh_of(hn::Mul(x, hn::Set(d, factor_of_limit)));
    const FloatVector capped = hn::Mul(tanh, hn::Set(d, limit));
    hn::Store(hn::IfThenElse(hn::Eq(x, minus_infinity()), x, capped), d, z);
    hn::Store(hn::Mul(hn::Sub(one, tanh), hn::Add(one, tanh)), d, slope);
  }
};

template <typename T, class Map>
HWY_INLINE void read_lanes(const T* x, std::int64_t at, const Map& map, TermBlock& block) {
  FloatVector values[kVectors];
  load_lanes(x, values);
  for (std::size_t k = 0; k < kVectors; ++k) {
    const std::int64_t i = at + static_cast<std::int64_t>(k * kVectorSize);
    map(values[k], block.z + i, block.slope + i);
  }
}

template <typename T, class Map>
HWY_INLINE void read_with(const Map& map, const T* x, std::int64_t count, std::int64_t ahead,
                          TermBlock& block) {
  constexpr auto kStep = static_cast<std::int64_t>(kLanes);
  std::int64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    prefetch_lanes(x + i, ahead);
    read_lanes(x + i, i, map, block);
  }
  if (i < count) read_lanes(Tail<T>(x + i, count - i).elements, i, map, block);
  block.size = i < count ? i + kStep : i;
}

/// Reads `count` elements, at most kBlockSize.
template <typename T>
HWY_INLINE void read_block(const T* x, std::int64_t count, const RowTransform& transform,
                           std::int64_t ahead, TermBlock& block) {
  if (transform == RowTransform{}) {
    read_with(SameLanes{}, x, count, ahead, block);
  } else if (transform.limit == 0) {
    read_with(ScaledLanes{transform.factor}, x, count, ahead, block);
  } else {
    read_with(CappedLanes{transform.limit, transform.factor / transform.limit}, x, count, ahead,
              block);
  }
}

/// Returns 64 bits from bit `at` on; 0 beyond the words.
HWY_INLINE std::uint64_t bits_from(std::span<const std::uint64_t> words, std::int64_t at) {
  const auto first = static_cast<std::size_t>(at / 64);
  const auto by = static_cast<unsigned>(at % 64);
  const std::uint64_t low = words[first] >> by;
  if (by == 0 || first + 1 == words.size()) return low;
  return low | words[first + 1] << (64 - by);
}

/// Returns the bits of at most 32 elements that the lanes of a vector test; with `kPairs` every
/// other bit, as load_lanes deals bf16 elements.
template <bool kPairs>
HWY_INLINE hn::Vec<Words> lane_bits(std::size_t vector) {
  const Words d;
  const auto lane = hn::Iota(d, 0);
  if constexpr (!kPairs) return hn::Shl(hn::Set(d, 1u), lane);
  const auto first = hn::Set(d, static_cast<std::uint32_t>(vector % 2));
  return hn::Shl(hn::Set(d, 1u), hn::Add(hn::Add(lane, lane), first));
}

/// Sets z to -inf where the bit of the element is 0; the first element has bit `at`.
template <typename T>
HWY_INLINE void mask_block(std::span<const std::uint64_t> words, std::int64_t at,
                           TermBlock& block) {
  constexpr bool kPairs = HWY_TARGET != HWY_SCALAR && sizeof(T) == 2;
  static_assert(kVectorSize <= 16, "lanes of two vectors have bits in one word of 32");
  const Floats d;
  const Words words_of_lanes;
  for (std::int64_t i = 0; i < block.size; i += kLanes) {
    const std::uint64_t bits = bits_from(words, at + i);
    for (std::size_t k = 0; k < kVectors; ++k) {
      float* z = block.z + i + static_cast<std::int64_t>(k * kVectorSize);
      const std::size_t first = (kPairs ? k / 2 * 2 : k) * kVectorSize;
      const auto own = hn::Set(words_of_lanes, static_cast<std::uint32_t>(bits >> first));
      const auto is_kept = hn::RebindMask(d, hn::TestBit(own, lane_bits<kPairs>(k)));
      hn::Store(hn::IfThenElse(is_kept, hn::Load(d, z), minus_infinity()), d, z);
    }
  }
}

/// Writes z as elements of a tensor.
template <bool kStream, typename T>
HWY_INLINE void write_block(const TermBlock& block, std::int64_t count, T* out) {
  constexpr auto kStep = static_cast<std::int64_t>(kLanes);
  FloatVector values[kVectors];
  std::int64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    load_lanes(block.z + i, values);
    store_lanes<kStream>(values, out + i);
  }
  if (i == count) return;
  alignas(64) T rest[kLanes];
  load_lanes(block.z + i, values);
  store_lanes<false>(values, rest);
  std::copy_n(rest, count - i, out + i);
}

HWY_INLINE void set_all(FloatVector (&lanes)[kVectors], FloatVector to) {
  each_vector([&](auto k) HWY_ATTR { lanes[k] = to; });
}

/// Returns the largest element.
HWY_INLINE float largest_of_block(const TermBlock& block) {
  FloatVector largest[kVectors];
  set_all(largest, minus_infinity());
  for (std::int64_t i = 0; i < block.size; i += kLanes) {
    FloatVector z[kVectors];
    load_lanes(block.z + i, z);
    each_vector([&](auto k) HWY_ATTR { largest[k] = hn::Max(largest[k], z[k]); });
  }
  each_vector([&](auto k) HWY_ATTR { largest[0] = hn::Max(largest[0], largest[k]); });
  return hn::GetLane(hn::MaxOfLanes(Floats(), largest[0]));
}

/// Returns the smallest element that is not -inf; +inf without such an element.
HWY_INLINE float smallest_of_block(const TermBlock& block) {
  const FloatVector infinity = hn::Neg(minus_infinity());
  FloatVector least[kVectors];
  set_all(least, infinity);
  for (std::int64_t i = 0; i < block.size; i += kLanes) {
    FloatVector z[kVectors];
    load_lanes(block.z + i, z);
    each_vector([&](auto k) HWY_ATTR {
      least[k] = hn::Min(least[k], hn::IfThenElse(hn::Eq(z[k], minus_infinity()), infinity, z[k]));
    });
  }
  each_vector([&](auto k) HWY_ATTR { least[0] = hn::Min(least[0], least[k]); });
  return hn::GetLane(hn::MinOfLanes(Floats(), least[0]));
}

/// Sums of a block.
struct ExpSums {
  float sum;       // of exp(z - shift)
  float weighted;  // of exp(z - shift) (z - shift), if requested
  float squares;   // of exp(z - shift)^2, if requested
};

/// Returns z - shift, at least -1000: there exponentials are 0, and their products with the
/// distance must be 0 too.
HWY_INLINE FloatVector distance_of(FloatVector z, FloatVector shift) {
  return at_least(hn::Set(Floats(), -1000.0f), hn::Sub(z, shift));
}

HWY_INLINE FloatVector exp_of_distance(FloatVector distance) {
  return exp2_of(hn::Mul(distance, hn::Set(Floats(), kLog2e)));
}

/// Adds exp(distance) to a sum and returns it.
HWY_INLINE FloatVector add_exp_of_distance(FloatVector distance, FloatVector& sum) {
  return add_exp2(hn::Mul(distance, hn::Set(Floats(), kLog2e)), sum);
}

template <bool kWeighted, bool kSquares = false>
HWY_INLINE ExpSums exp_sums_of(const TermBlock& block, float by) {
  const FloatVector shift = hn::Set(Floats(), by);
  FloatVector sums[kVectors];
  FloatVector weighted[kVectors];
  set_all(sums, hn::Zero(Floats()));
  set_all(weighted, hn::Zero(Floats()));
  FloatVector squares[kVectors];
  set_all(squares, hn::Zero(Floats()));
  for (std::int64_t i = 0; i < block.size; i += kLanes) {
    FloatVector z[kVectors];
    load_lanes(block.z + i, z);
    each_vector([&](auto k) HWY_ATTR {
      const FloatVector distance = kWeighted ? distance_of(z[k], shift) : hn::Sub(z[k], shift);
      const FloatVector power = add_exp_of_distance(distance, sums[k]);
      if constexpr (kWeighted) weighted[k] = hn::MulAdd(power, distance, weighted[k]);
      if constexpr (kSquares) squares[k] = hn::MulAdd(power, power, squares[k]);
    });
  }
  return {tree_sum(sums), kWeighted ? tree_sum(weighted) : 0, kSquares ? tree_sum(squares) : 0};
}

/// Sums over the elements of a block that are not -inf.
struct FiniteSums {
  float total;  // of z - shift
  float count;
};

HWY_INLINE FiniteSums finite_sums_of(const TermBlock& block, float by) {
  const Floats d;
  const FloatVector shift = hn::Set(d, by);
  FloatVector sums[kVectors];
  FloatVector counts[kVectors];
  set_all(sums, hn::Zero(d));
  set_all(counts, hn::Zero(d));
  for (std::int64_t i = 0; i < block.size; i += kLanes) {
    FloatVector z[kVectors];
    load_lanes(block.z + i, z);
    each_vector([&](auto k) HWY_ATTR {
      const auto masked = hn::Eq(z[k], minus_infinity());
      sums[k] = hn::Add(sums[k], hn::IfThenZeroElse(masked, hn::Sub(z[k], shift)));
      counts[k] = hn::Add(counts[k], hn::IfThenZeroElse(masked, hn::Set(d, 1.0f)));
    });
  }
  return {tree_sum(sums), tree_sum(counts)};
}

/// Numbers of a row that determine the gradient of its elements.
struct TermGradient {
  float shift;
  float sum;
  float log_sum;
  RowCoefficients by;
};

/// z := slope (p (b - a + c ln p) + d), 0 where z is -inf; the slope applies only with kSlope.
template <bool kEntropy, bool kSlope>
HWY_INLINE void gradient_of_block(const TermGradient& row, TermBlock& block) {
  const Floats d;
  const FloatVector shift = hn::Set(d, row.shift);
  const FloatVector log_sum = hn::Set(d, row.log_sum);
  // Factors of the exponential, which is p times the sum.
  const FloatVector of_power = hn::Set(d, (row.by.b - row.by.a) / row.sum);
  const FloatVector of_log_p = hn::Set(d, row.by.c / row.sum);
  const FloatVector constant = hn::Set(d, row.by.d);
  for (std::int64_t i = 0; i < block.size; i += kLanes) {
    FloatVector z[kVectors];
    load_lanes(block.z + i, z);
    for (std::size_t k = 0; k < kVectors; ++k) {
      const std::int64_t at = i + static_cast<std::int64_t>(k * kVectorSize);
      const FloatVector distance = kEntropy ? distance_of(z[k], shift) : hn::Sub(z[k], shift);
      FloatVector factor = of_power;
      if constexpr (kEntropy) {
        factor = hn::MulAdd(of_log_p, hn::Sub(distance, log_sum), of_power);
      }
      FloatVector gradient = hn::MulAdd(exp_of_distance(distance), factor, constant);
      if constexpr (kSlope) gradient = hn::Mul(gradient, hn::Load(d, block.slope + at));
      hn::Store(hn::IfThenZeroElse(hn::Eq(z[k], minus_infinity()), gradient), d, block.z + at);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lossgrid
HWY_AFTER_NAMESPACE();

#endif
