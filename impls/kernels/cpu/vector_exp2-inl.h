// SPDX-License-Identifier: Apache-2.0
// exp2_of: 2^t for vectors of float32, compiled once for every instruction set (Google Highway). t
// is split into a power of two and a fraction, for which a polynomial of degree 5 is used (minimax
// of the relative error, 7.5e-8, coefficients rounded to float32). Error at most 3 ULP if the
// result is a normal number; 0 below 2^-126 (with AVX-512 only under FlushDenormals) and for -inf;
// infinite, or at least 2^127, beyond the largest number; NaN for NaN. 2^-126 itself may already be
// 0.
#if defined(LOSSGRID_VECTOR_EXP2_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOSSGRID_VECTOR_EXP2_INL_H_
#undef LOSSGRID_VECTOR_EXP2_INL_H_
#else
#define LOSSGRID_VECTOR_EXP2_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lossgrid {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using FloatVector = hn::Vec<Floats>;

HWY_INLINE FloatVector polynomial(FloatVector x, float c0, float c1, float c2, float c3, float c4,
                                  float c5) {
  const Floats d;
  FloatVector sum = hn::MulAdd(hn::Set(d, c5), x, hn::Set(d, c4));
  sum = hn::MulAdd(sum, x, hn::Set(d, c3));
  sum = hn::MulAdd(sum, x, hn::Set(d, c2));
  sum = hn::MulAdd(sum, x, hn::Set(d, c1));
  return hn::MulAdd(sum, x, hn::Set(d, c0));
}

HWY_INLINE FloatVector exp2_of(FloatVector t) {
#if HWY_TARGET <= HWY_AVX3
  constexpr int kFloor = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
  const FloatVector fraction{_mm512_reduce_ps(t.raw, kFloor)};
  // On [0, 1).
  const FloatVector power = polynomial(fraction, 0x1.fffffap-1f, 0x1.62e4fap-1f, 0x1.ebd5a6p-3f,
                                       0x1.c95446p-5f, 0x1.26900cp-7f, 0x1.ec3208p-10f);
  return FloatVector{_mm512_scalef_ps(power.raw, t.raw)};
#else
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  // Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the low bits.
  const FloatVector magic = hn::Set(d, 12582912.0f);
  // NaN passes: the comparison is false.
  t = hn::IfThenElse(hn::Gt(t, hn::Set(d, 127.0f)), hn::Set(d, 127.0f), t);
  const FloatVector rounded = hn::Add(t, magic);
  const FloatVector fraction = hn::Sub(t, hn::Sub(rounded, magic));
  // On [-0.5, 0.5].
  const FloatVector power = polynomial(fraction, 1.0f, 0x1.62e426p-1f, 0x1.ebf916p-3f,
                                       0x1.c6b6e0p-5f, 0x1.3d0c56p-7f, 0x1.5c08f6p-10f);
  const auto scaled = hn::Add(hn::BitCast(di, power), hn::ShiftLeft<23>(hn::BitCast(di, rounded)));
  return hn::IfThenZeroElse(hn::Lt(t, hn::Set(d, -126.0f)), hn::BitCast(d, scaled));
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace lossgrid
HWY_AFTER_NAMESPACE();

#endif
