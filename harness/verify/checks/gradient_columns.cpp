// SPDX-License-Identifier: Apache-2.0
// The elements after the last whole vector go through the same code with vectors of one element.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/verify/checks/gradient_columns.cpp"
#include <hwy/foreach_target.h>  // compiles this file for every instruction set
//
#include <hwy/highway.h>

#include "harness/verify/checks/gradient_columns.h"
#include "harness/verify/checks/shard_checks.h"
#include "harness/verify/truth/vector_exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lossgrid {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Loads elements of a gradient as float64, and rounds truths to its dtype.
template <class D>
struct Dtype64 {
  using V = hn::Vec<D>;
  static V load(D d, const double* got) { return hn::LoadU(d, got); }
  static V round(D, V x) { return x; }
};

template <class D>
struct Dtype32 {
  using V = hn::Vec<D>;
  using Narrow = hn::Rebind<float, D>;
  static V load(D d, const float* got) { return hn::PromoteTo(d, hn::LoadU(Narrow(), got)); }
  static V round(D d, V x) { return hn::PromoteTo(d, hn::DemoteTo(Narrow(), x)); }
};

template <class D>
struct Dtype16 {
  using V = hn::Vec<D>;
  using Narrow = hn::Rebind<float, D>;
  using Words = hn::Rebind<std::uint32_t, D>;
  using Halves = hn::Rebind<std::uint16_t, D>;
  static V load(D d, const bf16* got) {
    const auto halves = hn::LoadU(Halves(), reinterpret_cast<const std::uint16_t*>(got));
    return widen(d, hn::ShiftLeft<16>(hn::PromoteTo(Words(), halves)));
  }
  /// Rounds to nearest even. No truth is NaN.
  static V round(D d, V x) {
    const Words words;
    const auto word = hn::BitCast(words, hn::DemoteTo(Narrow(), x));
    const auto odd = hn::And(hn::ShiftRight<16>(word), hn::Set(words, 1));
    const auto up = hn::Add(word, hn::Add(odd, hn::Set(words, 0x7fff)));
    return widen(d, hn::And(up, hn::Set(words, 0xffff0000u)));
  }

 private:
  static V widen(D d, hn::Vec<Words> word) { return hn::PromoteTo(d, hn::BitCast(Narrow(), word)); }
};

/// Compares columns from `begin` on in whole vectors. Returns the end of the last vector.
template <template <class> class Dtype, class D, typename T>
HWY_INLINE std::size_t compare(D d, const GradientColumns& columns, std::size_t begin,
                               double allowed, GradientColumnSums& sums,
                               std::vector<std::int32_t>& suspects) {
  using As = Dtype<D>;
  const GradientBound::Row& row = columns.bound.row();
  const auto set = [d](double x) { return hn::Set(d, x); };
  const auto top = set(columns.max);
  const auto furthest = set(1000.0);  // where p is 0
  const auto inverse_sum = set(1 / columns.sum);
  const auto minus_grad = set(-columns.grad_logprob);
  const auto u4 = set(4 * unit_roundoff(DType::f32));
  // with 4 u32 |p - [is target]|
  const auto row_term = set(row.row_term + 4 * unit_roundoff(DType::f32));
  const auto largest = set(row.largest);
  const auto made = set(row.largest * row.mean_error);
  const auto floor = set(row.floor);
  const auto radius = set(row.radius);
  const auto u_out = set(row.u_out);
  const auto longest_step = set(kLongestStep);
  const auto within = set(allowed);
  auto values = hn::Zero(d);
  auto bounds = hn::Zero(d);
  auto computation_times_truth = hn::Zero(d);
  auto out_truth = hn::Zero(d);
  auto rounded_truth = hn::Zero(d);
  auto shared = hn::Zero(d);
  auto truth_squared = hn::Zero(d);
  const T* got = static_cast<const T*>(columns.got);
  std::size_t k = begin;
  for (; k + hn::Lanes(d) <= columns.logits.size(); k += hn::Lanes(d)) {
    const auto distance = hn::Min(hn::Sub(top, hn::LoadU(d, columns.logits.data() + k)), furthest);
    const auto p = hn::Mul(exp_of_negative(d, hn::Neg(distance)), inverse_sum);
    const auto want = hn::Mul(minus_grad, p);
    const auto size = hn::Abs(want);
    const auto value = As::load(d, got + k);
    // Same formulas as GradientBound.
    const auto objective = hn::Mul(radius, p);
    const auto rounding = hn::Mul(u_out, hn::Add(size, objective));
    const auto roundings = hn::Mul(largest, hn::MulAdd(u4, distance, row_term));
    const auto computation = hn::MulAdd(p, hn::Add(roundings, made), floor);
    const auto own = hn::Add(rounding, computation);
    // False for a NaN.
    const auto fine =
        hn::Le(hn::Abs(hn::Sub(value, want)), hn::Mul(within, hn::Add(own, objective)));
    if (HWY_UNLIKELY(!hn::AllTrue(d, fine))) {
      for (std::size_t lane = 0; lane < hn::Lanes(d); ++lane) {
        suspects.push_back(static_cast<std::int32_t>(k + lane));
      }
    }
    values = hn::Add(values, value);
    bounds = hn::Add(bounds, own);
    computation_times_truth = hn::MulAdd(computation, size, computation_times_truth);
    // Same formulas as BiasSums::add_element.
    const auto slack = hn::Add(computation, objective);
    const auto rounded = As::round(d, want);
    const auto up = hn::Abs(hn::Sub(As::round(d, hn::Add(want, slack)), rounded));
    const auto down = hn::Abs(hn::Sub(As::round(d, hn::Sub(want, slack)), rounded));
    const auto step = hn::Min(hn::Max(up, down), longest_step);
    out_truth = hn::MulAdd(value, want, out_truth);
    rounded_truth = hn::MulAdd(rounded, want, rounded_truth);
    truth_squared = hn::MulAdd(want, want, truth_squared);
    const auto beyond = hn::Max(hn::Zero(d), hn::Sub(step, slack));
    shared = hn::MulAdd(hn::Add(objective, beyond), size, shared);
  }
  const auto total = [d](auto lanes) { return hn::GetLane(hn::SumOfLanes(d, lanes)); };
  sums.values += total(values);
  sums.bounds += total(bounds);
  sums.computation_times_truth += total(computation_times_truth);
  sums.out_truth += total(out_truth);
  sums.rounded_truth += total(rounded_truth);
  sums.shared += total(shared);
  sums.truth_squared += total(truth_squared);
  return k;
}

template <template <class> class Dtype, typename T>
void compare_all(const GradientColumns& columns, double allowed, GradientColumnSums& sums,
                 std::vector<std::int32_t>& suspects) {
  using Whole = hn::ScalableTag<double>;
  using One = hn::CappedTag<double, 1>;
  const std::size_t rest = compare<Dtype, Whole, T>(Whole(), columns, 0, allowed, sums, suspects);
  if (rest < columns.logits.size()) {
    compare<Dtype, One, T>(One(), columns, rest, allowed, sums, suspects);
  }
}

void compare_f64(const GradientColumns& columns, double allowed, GradientColumnSums& sums,
                 std::vector<std::int32_t>& suspects) {
  compare_all<Dtype64, double>(columns, allowed, sums, suspects);
}
void compare_f32(const GradientColumns& columns, double allowed, GradientColumnSums& sums,
                 std::vector<std::int32_t>& suspects) {
  compare_all<Dtype32, float>(columns, allowed, sums, suspects);
}
void compare_bf16(const GradientColumns& columns, double allowed, GradientColumnSums& sums,
                  std::vector<std::int32_t>& suspects) {
  compare_all<Dtype16, bf16>(columns, allowed, sums, suspects);
}

}  // namespace HWY_NAMESPACE
}  // namespace lossgrid
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lossgrid {

HWY_EXPORT(compare_f64);
HWY_EXPORT(compare_f32);
HWY_EXPORT(compare_bf16);

void compare_columns(const GradientColumns& columns, double allowed, GradientColumnSums& sums,
                     std::vector<std::int32_t>& suspects) {
  switch (columns.dtype) {
    case DType::f64:
      return HWY_DYNAMIC_DISPATCH(compare_f64)(columns, allowed, sums, suspects);
    case DType::bf16:
      return HWY_DYNAMIC_DISPATCH(compare_bf16)(columns, allowed, sums, suspects);
    default:
      return HWY_DYNAMIC_DISPATCH(compare_f32)(columns, allowed, sums, suspects);
  }
}

}  // namespace lossgrid
#endif
