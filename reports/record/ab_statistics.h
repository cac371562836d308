// SPDX-License-Identifier: Apache-2.0
// Statistics of A/B comparisons: verdicts on the time of B over that of A, from launches. A launch
// is a process that timed both and so gives one ratio. Ratios of launches are independent of each
// other, samples within a launch are not. No distribution is assumed, nothing is drawn at random:
// the same ratios give the same verdict.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

namespace lossgrid {

/// Median of the log-ratios as a ratio, and the interval that holds the true one with probability
/// `confidence` or more. No interval: low 0, high infinite.
struct MedianRatio {
  double median = 1;
  double low = 0;
  double high = 0;
  double confidence = 1;
};

/// Returns the median with the interval x_(k) .. x_(n-k+1) of the sorted ratios. k is the largest
/// for which 2 P(Binomial(n, 1/2) <= k - 1) <= alpha; that is the error of the interval exactly,
/// for every continuous distribution (David and Nagaraja, "Order Statistics", 2003, 7.1). Ratios
/// > 0. Throws internal when there are none.
MedianRatio median_ratio(std::span<const double> ratios, double alpha);

enum class AbVerdict {
  ok,            // slower by less than the margin for certain
  improved,      // faster by more than the margin for certain
  inconclusive,  // the interval reaches to both sides of the margin
  regressed,     // slower by more than the margin for certain
};

/// "OK", "IMPROVED", "INCONCLUSIVE", "REGRESSED"
std::string_view name(AbVerdict verdict);
/// Parses the name of a verdict. Throws bad_input.
AbVerdict ab_verdict(std::string_view text);

/// Compares the interval with `margin`, the part of A's time that B may take longer: 0.1 is 10 %.
AbVerdict judge(const MedianRatio& ratio, double margin);

/// Interim analyses: numbers of launches after which a comparison is judged. The first verdict that
/// is not inconclusive ends it.
inline constexpr std::array<std::size_t, 3> kLooks{12, 20, 30};
/// Alpha of one interim analysis; the three together err in less than one of twenty comparisons
/// (0.0064 + 0.0118 + 0.0161 by the exact intervals).
inline constexpr double kLookAlpha = 0.022;

/// Returns the alpha of each of `comparisons` that are judged together. Few of them need no
/// correction: with a margin nothing is regressed by chance alone. Beyond 20 alpha is divided by
/// their number (Bonferroni).
double look_alpha(std::size_t comparisons);

/// Sequential test: takes ratios launch by launch until it is decided.
class SequentialComparison {
 public:
  SequentialComparison(double margin, double alpha) : margin_(margin), alpha_(alpha) {}

  /// Adds the ratio of one launch, > 0. Requires that the test is not decided.
  void add(double ratio);
  /// True if an interim analysis found a verdict, or the last one found none.
  bool is_decided() const { return decided_; }
  /// Verdict of the last interim analysis, inconclusive before the first.
  AbVerdict verdict() const { return verdict_; }
  const MedianRatio& ratio() const { return ratio_; }
  const std::vector<double>& launch_ratios() const { return launch_ratios_; }

 private:
  double margin_;
  double alpha_;
  std::vector<double> launch_ratios_;
  MedianRatio ratio_;
  AbVerdict verdict_ = AbVerdict::inconclusive;
  bool decided_ = false;
};

}  // namespace lossgrid
