// SPDX-License-Identifier: Apache-2.0
// exp2_of: 2^t for vectors of float32, compiled once for every instruction set (Google Highway). t
// is split into a power of two and a fraction. With AVX-512 the first five bits of the fraction
// select a power from a table in two registers, and the rest goes through a polynomial of degree 2;
// elsewhere the fraction goes through one of degree 5 (both minimax of the relative error, 5.3e-8
// and 7.5e-8, coefficients rounded to float32). Error at most 3 ULP if the result is a normal
// number; 0 below 2^-126 (with AVX-512 only under FlushDenormals) and for -inf; infinite, or at
// least 2^127, beyond the largest number; NaN for NaN. 2^-126 itself may already be 0.
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

// If one operand is NaN, minimum and maximum of x86 return the second operand, while Highway's
// functions for one lane and for NEON return the other operand.

/// Returns the smaller of `most` and x; NaN where x is NaN.
HWY_INLINE FloatVector at_most(FloatVector most, FloatVector x) {
#if HWY_TARGET == HWY_SCALAR
  return hn::IfThenElse(hn::Gt(x, most), most, x);
#elif HWY_TARGET == HWY_NEON
  return FloatVector{vminq_f32(most.raw, x.raw)};
#else
  return hn::Min(most, x);
#endif
}

/// Returns the larger of `least` and x; NaN where x is NaN.
HWY_INLINE FloatVector at_least(FloatVector least, FloatVector x) {
#if HWY_TARGET == HWY_SCALAR
  return hn::IfThenElse(hn::Lt(x, least), least, x);
#elif HWY_TARGET == HWY_NEON
  return FloatVector{vmaxq_f32(least.raw, x.raw)};
#else
  return hn::Max(least, x);
#endif
}

#if HWY_TARGET <= HWY_AVX3
// 2^(k/32), times the constant coefficient of the polynomial.
alignas(64) inline constexpr float kPowers[32] = {
    0x1.000000p0f, 0x1.059b0ep0f, 0x1.0b5588p0f, 0x1.11301ep0f, 0x1.172b84p0f, 0x1.1d4874p0f,
    0x1.2387a8p0f, 0x1.29e9e0p0f, 0x1.306fe2p0f, 0x1.371a74p0f, 0x1.3dea66p0f, 0x1.44e088p0f,
    0x1.4bfdaep0f, 0x1.5342b6p0f, 0x1.5ab080p0f, 0x1.6247ecp0f, 0x1.6a09e8p0f, 0x1.71f760p0f,
    0x1.7a1148p0f, 0x1.82589ap0f, 0x1.8ace56p0f, 0x1.93737cp0f, 0x1.9c491ap0f, 0x1.a5503cp0f,
    0x1.ae89fcp0f, 0x1.b7f770p0f, 0x1.c199c0p0f, 0x1.cb7210p0f, 0x1.d58190p0f, 0x1.dfc974p0f,
    0x1.ea4afcp0f, 0x1.f50768p0f};

/// 2^t as a product: powers 2^floor(t), and the polynomial of the remainder in [0, 1/32) that the
/// table leaves.
struct Exp2Factors {
  __m512 scaled;
  __m512 polynomial;

  HWY_INLINE FloatVector product() const { return FloatVector{_mm512_mul_ps(scaled, polynomial)}; }
};

/// `low` and `high` are the table, or a multiple of the table.
HWY_INLINE Exp2Factors exp2_factors(__m512 t, __m512 low, __m512 high) {
  // All three operations round downwards, so that they agree on the fraction. The sum with 1.5 *
  // 2^18 leaves the first five bits of the fraction in the low bits.
  constexpr int kDown = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
  constexpr int kFiveBits = 5 << 4;
  const __m512i index =
      _mm512_castps_si512(_mm512_add_round_ps(t, _mm512_set1_ps(0x1.8p18f), kDown));
  const __m512 rest = _mm512_reduce_ps(t, kFiveBits | kDown);
  const __m512 power = _mm512_permutex2var_ps(low, index, high);
  const __m512 slope =
      _mm512_fmadd_ps(_mm512_set1_ps(0x1.f1562ap-3f), rest, _mm512_set1_ps(0x1.62e02cp-1f));
  return {_mm512_scalef_ps(power, t), _mm512_fmadd_ps(slope, rest, _mm512_set1_ps(1.0f))};
}

HWY_INLINE Exp2Factors exp2_factors(FloatVector t) {
  return exp2_factors(t.raw, _mm512_load_ps(kPowers), _mm512_load_ps(kPowers + 16));
}

HWY_INLINE FloatVector exp2_of(FloatVector t) {
  return exp2_factors(t).product();
}

/// Adds 2^t to a sum, rounded once, and returns 2^t.
HWY_INLINE FloatVector add_exp2(FloatVector t, FloatVector& sum) {
  const Exp2Factors factors = exp2_factors(t);
  sum = FloatVector{_mm512_fmadd_ps(factors.scaled, factors.polynomial, sum.raw)};
  return factors.product();
}

/// 2^t times a factor.
class ScaledExp2 {
 public:
  ScaledExp2() = default;
  explicit ScaledExp2(float factor)
      : low_(_mm512_mul_ps(_mm512_load_ps(kPowers), _mm512_set1_ps(factor))),
        high_(_mm512_mul_ps(_mm512_load_ps(kPowers + 16), _mm512_set1_ps(factor))) {}

  HWY_INLINE FloatVector operator()(FloatVector t) const {
    return exp2_factors(t.raw, low_, high_).product();
  }

 private:
  __m512 low_;
  __m512 high_;
};
#else
HWY_INLINE FloatVector exp2_of(FloatVector t) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  // Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the low bits.
  const FloatVector magic = hn::Set(d, 12582912.0f);
  t = at_most(hn::Set(d, 127.0f), t);
  const FloatVector rounded = hn::Add(t, magic);
  const FloatVector x = hn::Sub(t, hn::Sub(rounded, magic));  // in [-0.5, 0.5]
  FloatVector power = hn::MulAdd(hn::Set(d, 0x1.5c08f6p-10f), x, hn::Set(d, 0x1.3d0c56p-7f));
  power = hn::MulAdd(power, x, hn::Set(d, 0x1.c6b6e0p-5f));
  power = hn::MulAdd(power, x, hn::Set(d, 0x1.ebf916p-3f));
  power = hn::MulAdd(power, x, hn::Set(d, 0x1.62e426p-1f));
  power = hn::MulAdd(power, x, hn::Set(d, 1.0f));
  const auto scaled = hn::Add(hn::BitCast(di, power), hn::ShiftLeft<23>(hn::BitCast(di, rounded)));
  return hn::IfThenZeroElse(hn::Lt(t, hn::Set(d, -126.0f)), hn::BitCast(d, scaled));
}

/// Adds 2^t to a sum and returns 2^t.
HWY_INLINE FloatVector add_exp2(FloatVector t, FloatVector& sum) {
  const FloatVector power = exp2_of(t);
  sum = hn::Add(sum, power);
  return power;
}

/// 2^t times a factor.
class ScaledExp2 {
 public:
  ScaledExp2() = default;
  explicit ScaledExp2(float factor) : factor_(hn::Set(Floats(), factor)) {}

  HWY_INLINE FloatVector operator()(FloatVector t) const { return hn::Mul(exp2_of(t), factor_); }

 private:
  FloatVector factor_;
};
#endif

}  // namespace HWY_NAMESPACE
}  // namespace lossgrid
HWY_AFTER_NAMESPACE();

#endif
