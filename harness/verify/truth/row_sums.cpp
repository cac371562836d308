// SPDX-License-Identifier: Apache-2.0
// The rest of a row behind the last whole vector goes through the same code with vectors of one
// element.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/verify/truth/row_sums.cpp"
#include <hwy/foreach_target.h>  // compiles this file for every instruction set
//
#include <algorithm>

#include <hwy/highway.h>

#include "harness/verify/truth/row_sums.h"
#include "harness/verify/truth/vector_exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lossgrid {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::ScalableTag<double>;
using OneDouble = hn::CappedTag<double, 1>;

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
// exp is 0 beyond it; 0 times infinity would be NaN.
inline constexpr double kFurthest = 1000;

/// Adds elements from `begin` on, as far as whole vectors go. Returns the end of the last one.
template <class D>
HWY_INLINE std::size_t add_sums(D d, std::span<const double> logits, std::size_t begin, double max,
                                SoftmaxSums& sums) {
  const auto top = hn::Set(d, max);
  const auto furthest = hn::Set(d, kFurthest);
  const auto infinity = hn::Set(d, kInfinity);
  const auto nothing = hn::Set(d, -kInfinity);
  const auto scale = hn::Set(d, kDistanceScale);
  const auto scaled_top = hn::Mul(top, scale);
  const auto one = hn::Set(d, 1.0);
  auto exponentials = hn::Zero(d);
  auto weighted = hn::Zero(d);
  auto squared = hn::Zero(d);
  auto squares = hn::Zero(d);
  auto distances = hn::Zero(d);
  auto finite = hn::Zero(d);
  auto smallest = infinity;
  std::size_t k = begin;
  for (; k + hn::Lanes(d) <= logits.size(); k += hn::Lanes(d)) {
    const auto x = hn::LoadU(d, logits.data() + k);
    const auto distance = hn::Min(hn::Sub(top, x), furthest);
    const auto e = exp_of_negative(d, hn::Neg(distance));
    const auto product = hn::Mul(e, distance);
    exponentials = hn::Add(exponentials, e);
    weighted = hn::Add(weighted, product);
    squared = hn::MulAdd(product, distance, squared);
    const auto is_finite = hn::Gt(x, nothing);
    squares = hn::MulAdd(e, e, squares);
    const auto scaled = hn::NegMulAdd(x, scale, scaled_top);
    distances = hn::Add(distances, hn::IfThenElseZero(is_finite, scaled));
    finite = hn::Add(finite, hn::IfThenElseZero(is_finite, one));
    smallest = hn::Min(smallest, hn::IfThenElse(is_finite, x, infinity));
  }
  sums.exponentials += hn::GetLane(hn::SumOfLanes(d, exponentials));
  sums.weighted += hn::GetLane(hn::SumOfLanes(d, weighted));
  sums.squared += hn::GetLane(hn::SumOfLanes(d, squared));
  sums.squares += hn::GetLane(hn::SumOfLanes(d, squares));
  sums.distances += hn::GetLane(hn::SumOfLanes(d, distances));
  sums.finite += hn::GetLane(hn::SumOfLanes(d, finite));
  sums.smallest = std::min(sums.smallest, hn::GetLane(hn::MinOfLanes(d, smallest)));
  return k;
}

SoftmaxSums sums_of(std::span<const double> logits, double max) {
  SoftmaxSums sums;
  const std::size_t rest = add_sums(Doubles(), logits, 0, max, sums);
  if (rest < logits.size()) add_sums(OneDouble(), logits, rest, max, sums);
  return sums;
}

template <class D>
HWY_INLINE std::size_t make_probabilities(D d, std::span<const double> logits, std::size_t begin,
                                          double max, double sum, std::span<double> p) {
  std::size_t k = begin;
  for (; k + hn::Lanes(d) <= logits.size(); k += hn::Lanes(d)) {
    const auto x = hn::LoadU(d, logits.data() + k);
    const auto e = exp_of_negative(d, hn::Sub(x, hn::Set(d, max)));
    hn::StoreU(hn::Div(e, hn::Set(d, sum)), d, p.data() + k);
  }
  return k;
}

void probabilities_of(std::span<const double> logits, double max, double sum, std::span<double> p) {
  const std::size_t rest = make_probabilities(Doubles(), logits, 0, max, sum, p);
  if (rest < logits.size()) make_probabilities(OneDouble(), logits, rest, max, sum, p);
}

double largest_of(std::span<const double> logits) {
  const Doubles d;
  auto largest = hn::Set(d, -kInfinity);
  std::size_t k = 0;
  for (; k + hn::Lanes(d) <= logits.size(); k += hn::Lanes(d)) {
    largest = hn::Max(largest, hn::LoadU(d, logits.data() + k));
  }
  double result = hn::GetLane(hn::MaxOfLanes(d, largest));
  for (; k < logits.size(); ++k) result = std::max(result, logits[k]);
  return result;
}

}  // namespace HWY_NAMESPACE
}  // namespace lossgrid
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lossgrid {

HWY_EXPORT(sums_of);
HWY_EXPORT(probabilities_of);
HWY_EXPORT(largest_of);

void SoftmaxSums::add(const SoftmaxSums& other) {
  exponentials += other.exponentials;
  weighted += other.weighted;
  squared += other.squared;
  squares += other.squares;
  distances += other.distances;
  finite += other.finite;
  smallest = std::min(smallest, other.smallest);
}

double largest_logit(std::span<const double> logits) {
  return HWY_DYNAMIC_DISPATCH(largest_of)(logits);
}

SoftmaxSums softmax_sums(std::span<const double> logits, double max) {
  return HWY_DYNAMIC_DISPATCH(sums_of)(logits, max);
}

void softmax_probabilities(std::span<const double> logits, double max, double sum,
                           std::span<double> p) {
  HWY_DYNAMIC_DISPATCH(probabilities_of)(logits, max, sum, p);
}

}  // namespace lossgrid
#endif
