// SPDX-License-Identifier: Apache-2.0
#include "harness/loss/enclosure.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lossgrid {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kRoundoff = 0x1p-24;  // unit roundoff of float32
constexpr double kSmallestNormal = std::numeric_limits<float>::min();
constexpr double kLargest = std::numeric_limits<float>::max();

// Makes every result: a NaN value stays visible, an undefined end (inf - inf) is unbounded, and the
// value lies inside.
Enclosure enclose(double value, double low, double high) {
  Enclosure result(value);
  if (std::isnan(value)) return result;
  result.low = std::isnan(low) ? -kInfinity : std::min(low, value);
  result.high = std::isnan(high) ? kInfinity : std::max(high, value);
  return result;
}

double larger_end(const Enclosure& a) {
  return std::max(std::abs(a.low), std::abs(a.high));
}

// Widens by the roundoffs of a result of size `magnitude`. The finite end of an unbounded interval
// is widened by its own size only, which covers its rounding and keeps the end useful.
Enclosure widened(const Enclosure& a, double roundoffs, double magnitude) {
  if (magnitude == 0) return a;
  const auto width = [&](double end) {
    if (std::isinf(end)) return 0.0;
    const double size = std::isinf(magnitude) ? std::abs(end) : magnitude;
    return roundoffs * (kRoundoff * size + kSmallestNormal);
  };
  const double low = a.low - width(a.low);
  const double high = a.high + width(a.high);
  return enclose(a.value, low < -kLargest ? -kInfinity : low, high > kLargest ? kInfinity : high);
}

bool is_exactly(const Enclosure& a, double x) {
  return a.low == x && a.high == x;
}

// Product of interval ends: an end at 0 stays 0 even if the other is infinite.
double end_product(double a, double b) {
  return a == 0 || b == 0 ? 0 : a * b;
}

// Returns the product of two intervals, around a value that the caller has computed.
Enclosure product(double value, const Enclosure& a, const Enclosure& b) {
  const auto [low, high] = std::minmax({end_product(a.low, b.low), end_product(a.low, b.high),
                                        end_product(a.high, b.low), end_product(a.high, b.high)});
  return rounded(enclose(value, low, high), 1);
}

double log_sigmoid(double x) {
  return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x)));
}

// std::min and std::max may skip a NaN; the sum of the values keeps it.
bool any_nan(const Enclosure& a, const Enclosure& b) {
  return std::isnan(a.value) || std::isnan(b.value);
}

}  // namespace

Enclosure Enclosure::around(double value, double radius) {
  return enclose(value, value - radius, value + radius);
}

double Enclosure::radius() const {
  return is_exact() ? 0 : std::fmax(high - value, value - low);
}

Enclosure operator-(const Enclosure& a) {
  return enclose(-a.value, -a.high, -a.low);
}

Enclosure operator+(const Enclosure& a, const Enclosure& b) {
  if (is_exactly(a, 0)) return b;
  if (is_exactly(b, 0)) return a;
  return rounded(enclose(a.value + b.value, a.low + b.low, a.high + b.high), 1);
}

Enclosure operator-(const Enclosure& a, const Enclosure& b) {
  return a + -b;
}

Enclosure operator*(const Enclosure& a, const Enclosure& b) {
  if (is_exactly(a, 1)) return b;
  if (is_exactly(b, 1)) return a;
  if (is_exactly(a, -1)) return -b;
  if (is_exactly(b, -1)) return -a;
  return product(a.value * b.value, a, b);
}

Enclosure operator/(const Enclosure& a, const Enclosure& b) {
  if (is_exactly(b, 1)) return a;
  if (is_exactly(b, -1)) return -a;
  const double value = a.value / b.value;
  if (b.contains(0)) return enclose(value, -kInfinity, kInfinity);
  // With the reciprocal's ends, inf / inf is a product with an end at 0. The float64 rounding of
  // the reciprocal is far below the slack of a float32 roundoff.
  const Enclosure reciprocal = enclose(1 / b.value, 1 / b.high, 1 / b.low);
  return product(value, a, reciprocal);
}

Enclosure& operator+=(Enclosure& a, const Enclosure& b) {
  return a = a + b;
}

void EnclosureSum::add(const Enclosure& term) {
  if (is_exactly(term, 0)) return;
  ends_.value += term.value;
  ends_.low += term.low;
  ends_.high += term.high;
  magnitude_ += larger_end(term);
  ++terms_;
}

Enclosure EnclosureSum::result() const {
  const Enclosure total = enclose(ends_.value, ends_.low, ends_.high);
  return terms_ <= 1 ? total : widened(total, kSumRoundoffs, magnitude_);
}

Enclosure sum(std::span<const Enclosure> terms) {
  EnclosureSum total;
  for (const Enclosure& term : terms) total.add(term);
  return total.result();
}

Enclosure exp(const Enclosure& a) {
  if (is_exactly(a, 0)) return 1.0;  // in every library
  Enclosure result = rounded(enclose(std::exp(a.value), std::exp(a.low), std::exp(a.high)), 2);
  result.low = result.low < 0 ? 0 : result.low;
  return result;
}

Enclosure log(const Enclosure& a) {
  // The logarithm of a negative end is a NaN, which makes that end unbounded.
  return rounded(enclose(std::log(a.value), std::log(a.low), std::log(a.high)), 2);
}

Enclosure abs(const Enclosure& a) {
  const double low = a.contains(0) ? 0 : std::min(std::abs(a.low), std::abs(a.high));
  return enclose(std::abs(a.value), low, larger_end(a));
}

Enclosure log_sigmoid(const Enclosure& a) {
  Enclosure result =
      rounded(enclose(log_sigmoid(a.value), log_sigmoid(a.low), log_sigmoid(a.high)), 2);
  result.high = result.high > 0 ? 0 : result.high;
  return result;
}

Enclosure max(const Enclosure& a, const Enclosure& b) {
  if (any_nan(a, b)) return a.value + b.value;
  return enclose(std::max(a.value, b.value), std::max(a.low, b.low), std::max(a.high, b.high));
}

Enclosure min(const Enclosure& a, const Enclosure& b) {
  if (any_nan(a, b)) return a.value + b.value;
  return enclose(std::min(a.value, b.value), std::min(a.low, b.low), std::min(a.high, b.high));
}

Enclosure clamp(const Enclosure& a, double low, double high) {
  return enclose(std::clamp(a.value, low, high), std::clamp(a.low, low, high),
                 std::clamp(a.high, low, high));
}

Enclosure is_positive(const Enclosure& a) {
  if (std::isnan(a.value)) return a;
  return enclose(a.value > 0 ? 1 : 0, a.low > 0 ? 1 : 0, a.high > 0 ? 1 : 0);
}

Enclosure hull(const Enclosure& a, const Enclosure& b) {
  if (any_nan(a, b)) return a.value + b.value;
  return enclose(a.value, std::min(a.low, b.low), std::max(a.high, b.high));
}

Enclosure rounded(const Enclosure& a, double roundoffs) {
  return widened(a, roundoffs, larger_end(a));
}

}  // namespace lossgrid
