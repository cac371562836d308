// SPDX-License-Identifier: Apache-2.0
// Blocks of a row of logits of any dtype, read as float32 distances z - shift, compiled once for
// every instruction set. Tensors of all dtypes have the same order within a block, the order of the
// columns.
#if defined(LOSSGRID_DISTANCE_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOSSGRID_DISTANCE_BLOCKS_INL_H_
#undef LOSSGRID_DISTANCE_BLOCKS_INL_H_
#else
#define LOSSGRID_DISTANCE_BLOCKS_INL_H_
#endif

#include "harness/device/kernel/portable.h"
#include "impls/kernels/cpu/term_blocks-inl.h"
#include "impls/kernels/rows.h"
#include "impls/kernels/transformed_logit.h"

HWY_BEFORE_NAMESPACE();
namespace lossgrid {
namespace HWY_NAMESPACE {

/// Calls f(vector of z, number of its vector of sums, position) for all vectors of a block.
template <typename F>
HWY_INLINE void for_each_vector(const TermBlock& block, F&& f) {
  for (std::int64_t i = 0; i < block.size; i += kLanes) {
    each_vector([&](auto k) HWY_ATTR {
      const std::int64_t at = i + static_cast<std::int64_t>(k * kVectorSize);
      f(hn::Load(Floats(), block.z + at), k, at);
    });
  }
}

/// Replaces the logits of a block by distances. Only -inf becomes -inf.
HWY_INLINE void subtract_shift(float by, TermBlock& block) {
  const Floats d;
  const FloatVector shift = hn::Set(d, by);
  const FloatVector lowest = hn::Set(d, std::numeric_limits<float>::lowest());
  for_each_vector(block, [&](FloatVector z, std::size_t, std::int64_t at) HWY_ATTR {
    const FloatVector finite = at_least(lowest, hn::Sub(z, shift));
    hn::Store(hn::IfThenElse(hn::Eq(z, minus_infinity()), z, finite), d, block.z + at);
  });
}

HWY_INLINE void read_distances(const float* x, std::int64_t count, const RowTransform& transform,
                               float shift, TermBlock& block) {
  read_block(x, count, transform, 0, block);
  subtract_shift(shift, block);
}

HWY_INLINE void read_distances(const bf16* x, std::int64_t count, const RowTransform& transform,
                               float shift, TermBlock& block) {
  alignas(64) float values[kBlockSize];
  for (std::int64_t k = 0; k < count; ++k) values[k] = static_cast<float>(x[k]);
  read_distances(values, count, transform, shift, block);
}

HWY_INLINE void read_distances(const double* x, std::int64_t count, const RowTransform& transform,
                               float shift, TermBlock& block) {
  constexpr auto kStep = static_cast<std::int64_t>(kLanes);
  const EitherLogit map{transform};
  for (std::int64_t k = 0; k < count; ++k) {
    const double z = map.z(x[k]);
    block.z[k] = to_float(exact_distance_to_shift(z, shift));
    const double w = transform.limit == 0 ? 0 : z / transform.limit;
    block.slope[k] = static_cast<float>((1 - w) * (1 + w));
  }
  block.size = (count + kStep - 1) / kStep * kStep;
  std::fill(block.z + count, block.z + block.size, -std::numeric_limits<float>::infinity());
}

/// Row of a tensor of any dtype, with its transform.
struct DistanceRow {
  DType dtype;
  const std::byte* x;
  RowTransform transform;

  DistanceRow(const LogitsRows& rows, std::int64_t r)
      : dtype(rows.dtype),
        x(static_cast<const std::byte*>(rows.data) +
          static_cast<std::size_t>(r * rows.shard.width) * size_of(rows.dtype)),
        transform(rows.transforms == nullptr ? RowTransform{} : rows.transforms[r]) {}

  /// Reads `count` columns from `begin` on, at most kBlockSize.
  void read(std::int64_t begin, std::int64_t count, float shift, TermBlock& block) const {
    switch (dtype) {
      case DType::f64:
        return read_distances(reinterpret_cast<const double*>(x) + begin, count, transform, shift,
                              block);
      case DType::bf16:
        return read_distances(reinterpret_cast<const bf16*>(x) + begin, count, transform, shift,
                              block);
      default:
        return read_distances(reinterpret_cast<const float*>(x) + begin, count, transform, shift,
                              block);
    }
  }
};

/// Rounds the first `count` numbers of a block to elements of a tensor.
template <typename T>
HWY_INLINE void write_elements(const TermBlock& block, std::int64_t count, T* out) {
  for (std::int64_t k = 0; k < count; ++k) out[k] = static_cast<T>(block.z[k]);
}

}  // namespace HWY_NAMESPACE
}  // namespace lossgrid
HWY_AFTER_NAMESPACE();

#endif
