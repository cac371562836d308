// SPDX-License-Identifier: Apache-2.0
// Statistics of one row in one read: the online softmax (Milakov and Gimelshein, "Online normalizer
// calculation for softmax", 2018) by blocks, with rare rescaling. Instead of the running maximum,
// the shift is the largest of the first elements, and is raised only if the sum of a block shows
// that it is too low.
#if defined(LOSSGRID_ROW_STATISTICS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOSSGRID_ROW_STATISTICS_INL_H_
#undef LOSSGRID_ROW_STATISTICS_INL_H_
#else
#define LOSSGRID_ROW_STATISTICS_INL_H_
#endif

#include "impls/kernels/cpu/row_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lossgrid {
namespace HWY_NAMESPACE {

inline constexpr std::int64_t kFirstElements = 64;
// A block with a larger sum has an exponential above 4; a block with a smaller sum has no
// exponential above 2^12, so that shifts are at most 12 ln 2 = 8.4 below the largest logit.
inline constexpr float kLargestBlockSum = 0x1p12f;

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Shift before any element other than -inf: exponentials of -inf are 0.
inline constexpr float kNoShift = -kLargestFusedShift;

/// Returns the first shift of a row; kNoShift if its first elements are all -inf.
template <typename T>
HWY_INLINE float first_shift(const T* x, std::int64_t columns) {
  const float largest = largest_of(x, std::min(columns, kFirstElements), 0);
  return largest > -kInfinity ? largest : kNoShift;
}

/// True if the sum of a block requires a larger shift.
HWY_INLINE bool is_too_large(float block) {
  return !(block <= kLargestBlockSum);
}

template <typename T>
HWY_INLINE float sum_of_lanes(const T* x, std::int64_t count, const Exponent& exponent,
                              std::int64_t ahead) {
  return exponent.fused ? sum_block<true>(x, count, exponent.scaled, ahead)
                        : sum_block<false>(x, count, exponent.shift, ahead);
}

/// Returns the sum of fewer than kLanes elements.
template <typename T>
HWY_INLINE float sum_of_tail(const T* x, std::int64_t count, const Exponent& exponent) {
  if (count == 0) return 0;
  return sum_of_lanes(Tail<T>(x, count).elements, kLanes, exponent, 0);
}

template <typename T>
HWY_INLINE float sum_of(const T* x, std::int64_t count, const Exponent& exponent,
                        std::int64_t ahead) {
  const std::int64_t whole = count / kLanes * kLanes;
  return sum_of_lanes(x, whole, exponent, ahead) + sum_of_tail(x + whole, count - whole, exponent);
}

template <bool kOrdinary, typename T>
HWY_INLINE AllOfBlock all_of_lanes(const T* x, std::int64_t count, const Exponent& exponent,
                                   std::int64_t ahead) {
  return exponent.fused ? all_of_block<true, kOrdinary>(x, count, exponent.scaled, ahead)
                        : all_of_block<false, kOrdinary>(x, count, exponent.shift, ahead);
}

/// Returns the results of a block. `all` has the results of its whole lanes, which count if they
/// are ordinary.
template <typename T>
HWY_INLINE AllOfBlock completed(const T* x, std::int64_t count, const Exponent& exponent,
                                AllOfBlock all) {
  const std::int64_t whole = count / kLanes * kLanes;
  if (HWY_UNLIKELY(!(all.min > kLeastOrdinary))) all = all_of_lanes<false>(x, whole, exponent, 0);
  if (whole < count) {
    const Tail<T> tail(x + whole, count - whole);
    const AllOfBlock rest = all_of_lanes<false>(tail.elements, kLanes, exponent, 0);
    all = {all.sum + rest.sum, all.weighted + rest.weighted, std::min(all.min, rest.min),
           std::max(all.max, rest.max)};
  }
  return all;
}

template <typename T>
HWY_INLINE AllOfBlock all_of(const T* x, std::int64_t count, const Exponent& exponent,
                             std::int64_t ahead) {
  const std::int64_t whole = count / kLanes * kLanes;
  return completed(x, count, exponent, all_of_lanes<true>(x, whole, exponent, ahead));
}

/// Sums of a row so far, relative to the shift of `exponent`, its rounding error included.
struct RunningSums {
  Exponent exponent = Exponent(kNoShift);
  double sum = 0;
  double weighted = 0;  // sum of 2^t t

  /// True if all elements so far are -inf.
  bool knows_nothing() const { return sum == 0 && exponent.shift == kNoShift; }

  /// Rescales the sums to another shift.
  void move(float shift) {
    if (shift == exponent.shift) return;
    const Exponent to(shift);
    if (sum != 0) {
      const double by = exponent.offset() - to.offset();
      const double factor = std::exp2(by);
      weighted = factor * (weighted + by * sum);
      sum *= factor;
    }
    exponent = to;
  }
};

struct RowSums {
  float shift;
  float sum;
  float weighted;
  float min;
};

/// Returns the sums relative to the shift itself, in natural units.
HWY_INLINE RowSums finish_row(const RunningSums& running, float min) {
  constexpr double kLn2 = 0.693147180559945309;
  const double rounding = running.exponent.rounding();
  const double factor = exp2_of_small(rounding);
  const bool nothing = running.sum == 0;
  return {nothing ? -kInfinity : running.exponent.shift, static_cast<float>(factor * running.sum),
          static_cast<float>(factor * kLn2 * (running.weighted + rounding * running.sum)), min};
}

/// Returns NaN if any element is NaN, for a row whose largest element is -inf: extrema may skip a
/// NaN.
template <typename T>
double nan_or_zero(const T* x, std::int64_t count) {
  for (std::int64_t k = 0; k < count; ++k) {
    const auto value = static_cast<float>(x[k]);
    if (std::isnan(value)) return static_cast<double>(value);
  }
  return 0;
}

/// Adds the sum `block` of a block, relative to the running shift; raises the shift if it is too
/// low.
template <typename T>
HWY_INLINE void add_sum(const T* x, std::int64_t count, float block, RunningSums& running) {
  if (HWY_UNLIKELY(is_too_large(block))) {
    running.move(largest_of(x, count, 0));
    block = sum_of(x, count, running.exponent, 0);
  }
  running.sum += block;
}

template <typename T>
HWY_INLINE void add_block(const T* x, std::int64_t count, std::int64_t ahead,
                          RunningSums& running) {
  if (HWY_UNLIKELY(running.knows_nothing())) {
    const float largest = largest_of(x, count, ahead);
    if (largest == -kInfinity) {
      running.sum += nan_or_zero(x, count);
      return;
    }
    running.move(largest);
  }
  add_sum(x, count, sum_of(x, count, running.exponent, ahead), running);
}

template <typename T>
HWY_INLINE RowSums sums_of_row(const T* x, std::int64_t columns, std::int64_t ahead) {
  RunningSums running{Exponent(first_shift(x, columns))};
  for (std::int64_t begin = 0; begin < columns; begin += kBlockSize) {
    add_block(x + begin, std::min(kBlockSize, columns - begin), ahead, running);
  }
  return finish_row(running, 0);
}

/// Running sums of a row and its extrema.
struct RunningAll {
  RunningSums sums;
  float min = kInfinity;
  float max = -kInfinity;
};

/// Adds the results `block` of a block, relative to the running shift; raises the shift if it is
/// too low.
template <typename T>
HWY_INLINE void add_all(const T* x, std::int64_t count, AllOfBlock block, RunningAll& running) {
  RunningSums& sums = running.sums;
  if (HWY_UNLIKELY(is_too_large(block.sum) || sums.knows_nothing())) {
    if (block.max == -kInfinity) {
      sums.sum += nan_or_zero(x, count);
      return;
    }
    sums.move(block.max);
    block = all_of(x, count, sums.exponent, 0);
  }
  sums.sum += block.sum;
  sums.weighted += block.weighted;
  running.min = std::min(running.min, block.min);
  running.max = std::max(running.max, block.max);
}

HWY_INLINE RowSums finish_all(RunningAll& running) {
  if (running.sums.sum != 0) running.sums.move(running.max);
  return finish_row(running.sums, running.min);
}

template <typename T>
HWY_INLINE RowSums all_sums_of_row(const T* x, std::int64_t columns, std::int64_t ahead) {
  RunningAll running{{Exponent(first_shift(x, columns))}};
  for (std::int64_t begin = 0; begin < columns; begin += kBlockSize) {
    const std::int64_t count = std::min(kBlockSize, columns - begin);
    add_all(x + begin, count, all_of(x + begin, count, running.sums.exponent, ahead), running);
  }
  return finish_all(running);
}

}  // namespace HWY_NAMESPACE
}  // namespace lossgrid
HWY_AFTER_NAMESPACE();

#endif
