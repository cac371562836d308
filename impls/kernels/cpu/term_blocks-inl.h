// SPDX-License-Identifier: Apache-2.0
// Vectorised operations on a block of transformed logits (row_transform.h), compiled once for every
// instruction set. A block is read once, as float32 into memory that stays in the first cache; what
// follows passes over that, so that no operation is made for every dtype, transform and set of
// terms. Distances are z - shift in natural units.
#if defined(LOSSGRID_TERM_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOSSGRID_TERM_BLOCKS_INL_H_
#undef LOSSGRID_TERM_BLOCKS_INL_H_
#else
#define LOSSGRID_TERM_BLOCKS_INL_H_
#endif

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
  alignas(64) float slope[kBlockSize];  // z' / factor, of rows with a limit
  std::int64_t size = 0;
};

HWY_INLINE FloatVector minus_infinity() {
  return hn::Set(Floats(), -std::numeric_limits<float>::infinity());
}

/// Returns the larger one; a NaN stays, which maxima of plain CPUs lose.
HWY_INLINE FloatVector at_least(float least, FloatVector x) {
  const FloatVector bound = hn::Set(Floats(), least);
  return hn::IfThenElse(hn::Lt(x, bound), bound, x);
}

/// z = factor x. No finite x becomes -inf.
struct ScaledLanes {
  float factor;

  HWY_INLINE void operator()(FloatVector x, float* z, float* /*slope*/) const {
    const Floats d;
    const FloatVector finite =
        at_least(std::numeric_limits<float>::lowest(), hn::Mul(x, hn::Set(d, factor)));
    hn::Store(hn::IfThenElse(hn::Eq(x, minus_infinity()), x, finite), d, z);
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
  if (transform.limit == 0) {
    read_with(ScaledLanes{transform.factor}, x, count, ahead, block);
  } else {
    read_with(CappedLanes{transform.limit, transform.factor / transform.limit}, x, count, ahead,
              block);
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

/// Calls f(vector of z, number of its vector of sums, position) for all of a block.
template <typename F>
HWY_INLINE void for_each_vector(const TermBlock& block, F&& f) {
  for (std::int64_t i = 0; i < block.size; i += kLanes) {
    for (std::size_t k = 0; k < kVectors; ++k) {
      const std::int64_t at = i + static_cast<std::int64_t>(k * kVectorSize);
      f(hn::Load(Floats(), block.z + at), k, at);
    }
  }
}

/// Sums of a block.
struct ExpSums {
  float sum;       // of exp(z - shift)
  float weighted;  // of exp(z - shift) (z - shift), if asked for
};

/// Returns z - shift; not less than -1000, where exponentials are 0 and their products with it have
/// to be 0 too.
HWY_INLINE FloatVector distance_of(FloatVector z, FloatVector shift) {
  return at_least(-1000, hn::Sub(z, shift));
}

HWY_INLINE FloatVector exp_of_distance(FloatVector distance) {
  return exp2_of(hn::Mul(distance, hn::Set(Floats(), kLog2e)));
}

template <bool kWeighted>
HWY_INLINE ExpSums exp_sums_of(const TermBlock& block, float by) {
  const FloatVector shift = hn::Set(Floats(), by);
  FloatVector sums[kVectors];
  FloatVector weighted[kVectors];
  for (std::size_t k = 0; k < kVectors; ++k) sums[k] = weighted[k] = hn::Zero(Floats());
  for_each_vector(block, [&](FloatVector z, std::size_t k, std::int64_t) HWY_ATTR {
    const FloatVector distance = distance_of(z, shift);
    const FloatVector power = exp_of_distance(distance);
    sums[k] = hn::Add(sums[k], power);
    if constexpr (kWeighted) weighted[k] = hn::MulAdd(power, distance, weighted[k]);
  });
  return {tree_sum(sums), kWeighted ? tree_sum(weighted) : 0};
}

struct FiniteSums {
  float total;  // of z - shift
  float count;
};

/// Returns sums over the elements that are not -inf.
HWY_INLINE FiniteSums finite_sums_of(const TermBlock& block, float by) {
  const Floats d;
  const FloatVector shift = hn::Set(d, by);
  FloatVector sums[kVectors];
  for (FloatVector& sum : sums) sum = hn::Zero(d);
  FloatVector counts = hn::Zero(d);
  for_each_vector(block, [&](FloatVector z, std::size_t k, std::int64_t) HWY_ATTR {
    const auto masked = hn::Eq(z, minus_infinity());
    sums[k] = hn::Add(sums[k], hn::IfThenZeroElse(masked, hn::Sub(z, shift)));
    counts = hn::Add(counts, hn::IfThenZeroElse(masked, hn::Set(d, 1.0f)));
  });
  return {tree_sum(sums), hn::GetLane(hn::SumOfLanes(d, counts))};
}

/// Returns the smallest element that is not -inf; +inf if there is none.
HWY_INLINE float smallest_of(const TermBlock& block) {
  const FloatVector infinity = hn::Neg(minus_infinity());
  FloatVector least = infinity;
  for_each_vector(block, [&](FloatVector z, std::size_t, std::int64_t) HWY_ATTR {
    least = hn::Min(least, hn::IfThenElse(hn::Eq(z, minus_infinity()), infinity, z));
  });
  return hn::GetLane(hn::MinOfLanes(Floats(), least));
}

/// Numbers of a row that the gradient of its elements is made of.
struct TermGradient {
  float shift;
  float log_sum;
  float of_sum;  // 1 / sum
  RowCoefficients by;
};

/// z := slope (p (b - a + c ln p) + d), 0 where z is -inf; the slope counts with kSlope alone.
template <bool kEntropy, bool kSlope>
HWY_INLINE void gradient_of_block(const TermGradient& row, TermBlock& block) {
  const Floats d;
  const FloatVector shift = hn::Set(d, row.shift);
  const FloatVector log_sum = hn::Set(d, row.log_sum);
  const FloatVector of_sum = hn::Set(d, row.of_sum);
  const FloatVector of_p = hn::Set(d, row.by.b - row.by.a);
  const FloatVector of_log_p = hn::Set(d, row.by.c);
  const FloatVector constant = hn::Set(d, row.by.d);
  for_each_vector(block, [&](FloatVector z, std::size_t, std::int64_t at) HWY_ATTR {
    const FloatVector distance = distance_of(z, shift);
    const FloatVector p = hn::Mul(exp_of_distance(distance), of_sum);
    FloatVector factor = of_p;
    if constexpr (kEntropy) factor = hn::MulAdd(of_log_p, hn::Sub(distance, log_sum), of_p);
    FloatVector gradient = hn::MulAdd(p, factor, constant);
    if constexpr (kSlope) gradient = hn::Mul(gradient, hn::Load(d, block.slope + at));
    hn::Store(hn::IfThenZeroElse(hn::Eq(z, minus_infinity()), gradient), d, block.z + at);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace lossgrid
HWY_AFTER_NAMESPACE();

#endif
