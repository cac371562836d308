// SPDX-License-Identifier: Apache-2.0
// exp(x) for x <= 0 in float64, compiled once for every instruction set (Google Highway).
// clang-format off
//   exp(x) = 2^k exp(r),  x = k ln 2 + r,  |r| <= ln 2 / 2
// clang-format on
// (Cody and Waite, "Software manual for the elementary functions", 1980), with the Taylor series of
// exp(r) to r^13, whose remainder is below 2^-57. At most 2 ULP off if the result is a normal
// number; 0 below -708, where normal numbers end, and for -inf. Highway's own takes half as long
// again, and checks of a gradient spend most of their time here.
#if defined(LOSSGRID_VECTOR_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOSSGRID_VECTOR_EXP_INL_H_
#undef LOSSGRID_VECTOR_EXP_INL_H_
#else
#define LOSSGRID_VECTOR_EXP_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lossgrid {
namespace HWY_NAMESPACE {

/// Returns exp(x) of every lane.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V exp_of_negative(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const auto set = [d](double value) { return hn::Set(d, value); };
  // Adding 1.5 * 2^52 rounds to the nearest integer and leaves it in the low bits.
  const V magic = set(6755399441055744.0);
  const V shifted = hn::MulAdd(x, set(1.4426950408889634), magic);
  const V k = hn::Sub(shifted, magic);
  // ln 2 in two parts; the first has 20 trailing zeros, so that its product with k is exact.
  V r = hn::NegMulAdd(k, set(0x1.62e42fefap-1), x);
  r = hn::NegMulAdd(k, set(0x1.cf79abc9e3b39p-40), r);
  // By Estrin's scheme: Horner's would wait for each operation before the next.
  const V r2 = hn::Mul(r, r);
  const V r4 = hn::Mul(r2, r2);
  const V terms01 = hn::Add(r, set(1.0));
  const V terms23 = hn::MulAdd(r, set(1.0 / 6), set(0.5));
  const V terms45 = hn::MulAdd(r, set(1.0 / 120), set(1.0 / 24));
  const V terms67 = hn::MulAdd(r, set(1.0 / 5040), set(1.0 / 720));
  const V terms89 = hn::MulAdd(r, set(1.0 / 362880), set(1.0 / 40320));
  const V terms1011 = hn::MulAdd(r, set(1.0 / 39916800), set(1.0 / 3628800));
  const V terms1213 = hn::MulAdd(r, set(1.0 / 6227020800), set(1.0 / 479001600));
  const V terms8to11 = hn::MulAdd(terms1011, r2, terms89);
  const V terms8to13 = hn::MulAdd(terms1213, r4, terms8to11);
  const V terms4to7 = hn::MulAdd(terms67, r2, terms45);
  const V terms4to13 = hn::MulAdd(terms8to13, r4, terms4to7);
  const V terms0to3 = hn::MulAdd(terms23, r2, terms01);
  const V sum = hn::MulAdd(terms4to13, r4, terms0to3);
  const hn::RebindToSigned<D> di;
  const auto scaled = hn::Add(hn::BitCast(di, sum), hn::ShiftLeft<52>(hn::BitCast(di, shifted)));
  return hn::IfThenElseZero(hn::Ge(x, set(-708.0)), hn::BitCast(d, scaled));
}

}  // namespace HWY_NAMESPACE
}  // namespace lossgrid
HWY_AFTER_NAMESPACE();

#endif
