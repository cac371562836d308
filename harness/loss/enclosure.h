// SPDX-License-Identifier: Apache-2.0
// Enclosure: a number with an interval around it. `value` is computed in float64, and [low, high]
// holds every result that a right float32 computation of the same formula may give, when its inputs
// lie in their own intervals. Every operation that rounds widens the interval by one float32
// roundoff; exp, log and log_sigmoid widen it by two, the error of the functions in float32
// libraries. Intervals follow R. E. Moore, "Interval Analysis", 1966.
//
// If an interval straddles the switch of a clamp, maximum or step, the result holds both sides, so
// that no check depends on the side to which a rounding error fell.
#pragma once

#include <cstdint>
#include <span>

namespace lossgrid {

/// A NaN value has NaN ends, and a NaN argument always gives a NaN. A rounded result below the
/// smallest normal float32 may also be flushed to 0; a result above the largest float32 may be
/// infinite.
struct Enclosure {
  double value = 0;
  double low = 0;
  double high = 0;

  Enclosure() = default;
  /// An exact number.
  Enclosure(double exact) : value(exact), low(exact), high(exact) {}  // NOLINT: numbers convert
  /// Returns value +- radius.
  static Enclosure around(double value, double radius);

  /// Returns the larger distance of an end from the value.
  double radius() const;
  bool contains(double x) const { return low <= x && x <= high; }
  bool is_exact() const { return low == high; }
};

Enclosure operator-(const Enclosure& a);
Enclosure operator+(const Enclosure& a, const Enclosure& b);
Enclosure operator-(const Enclosure& a, const Enclosure& b);
Enclosure operator*(const Enclosure& a, const Enclosure& b);
/// An interval of b that holds 0 gives an unbounded result.
Enclosure operator/(const Enclosure& a, const Enclosure& b);
Enclosure& operator+=(Enclosure& a, const Enclosure& b);

/// Allowed error of a sum over tokens, in float32 roundoffs of sum |terms|: sums must be
/// accumulated in float64, pairwise or compensated, not serially in float32.
inline constexpr double kSumRoundoffs = 4;

/// Sum with one widening for all terms; no widening while at most one term is not exactly 0.
class EnclosureSum {
 public:
  void add(const Enclosure& term);
  /// True if all terms so far are exactly 0.
  bool is_zero() const { return terms_ == 0; }
  Enclosure result() const;

 private:
  Enclosure ends_;
  double magnitude_ = 0;    // sum of the terms' larger ends
  std::int64_t terms_ = 0;  // number of terms that are not exactly 0
};

/// Returns the EnclosureSum of all terms; 0 without terms.
Enclosure sum(std::span<const Enclosure> terms);

Enclosure exp(const Enclosure& a);
Enclosure log(const Enclosure& a);
Enclosure abs(const Enclosure& a);
/// Returns log(1 / (1 + exp(-a))), without overflow.
Enclosure log_sigmoid(const Enclosure& a);
Enclosure max(const Enclosure& a, const Enclosure& b);
Enclosure min(const Enclosure& a, const Enclosure& b);
Enclosure clamp(const Enclosure& a, double low, double high);
/// Returns 1 if a > 0, else 0; [0, 1] if the interval holds both cases.
Enclosure is_positive(const Enclosure& a);
/// Returns the smallest interval that holds both intervals, with a's value.
Enclosure hull(const Enclosure& a, const Enclosure& b);
/// Returns `a` widened by `roundoffs` float32 roundoffs of its larger end.
Enclosure rounded(const Enclosure& a, double roundoffs);

}  // namespace lossgrid
