// SPDX-License-Identifier: Apache-2.0
// tanh_of: the hyperbolic tangent for vectors of float32, compiled once for every instruction set.
// Small arguments have an odd polynomial of degree 11 (minimax of the relative error, 4e-9,
// coefficients rounded to float32), so that the relative error is small at 0 too; other arguments
// use 1 - 2 / (exp(2 |x|) + 1). Error at most 5 ULP; 1 in size for infinite arguments, NaN for NaN.
#if defined(LOSSGRID_VECTOR_TANH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOSSGRID_VECTOR_TANH_INL_H_
#undef LOSSGRID_VECTOR_TANH_INL_H_
#else
#define LOSSGRID_VECTOR_TANH_INL_H_
#endif

#include "impls/kernels/cpu/vector_exp2-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lossgrid {
namespace HWY_NAMESPACE {

HWY_INLINE FloatVector tanh_of(FloatVector x) {
  const Floats d;
  const FloatVector one = hn::Set(d, 1.0f);
  const FloatVector size = hn::Abs(x);
  // On [0, 0.625]: (tanh x - x) / x as a polynomial of x^2 without a constant term.
  const FloatVector square = hn::Mul(x, x);
  FloatVector sum = hn::MulAdd(hn::Set(d, -0x1.75e1a8p-8f), square, hn::Set(d, 0x1.522694p-6f));
  sum = hn::MulAdd(sum, square, hn::Set(d, -0x1.b83c58p-5f));
  sum = hn::MulAdd(sum, square, hn::Set(d, 0x1.110726p-3f));
  sum = hn::MulAdd(sum, square, hn::Set(d, -0x1.555532p-2f));
  const FloatVector small = hn::MulAdd(hn::Mul(sum, square), size, size);
  constexpr float kTwoLog2e = 2.88539008f;
  const FloatVector power = exp2_of(hn::Mul(size, hn::Set(d, kTwoLog2e)));
  const FloatVector large = hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(power, one)));
  const FloatVector result = hn::IfThenElse(hn::Lt(size, hn::Set(d, 0.625f)), small, large);
  return hn::CopySign(result, x);
}

}  // namespace HWY_NAMESPACE
}  // namespace lossgrid
HWY_AFTER_NAMESPACE();

#endif
