// SPDX-License-Identifier: Apache-2.0
// Whether B takes longer than A, from launches: processes that each timed both and so give one
// ratio each. Ratios of launches are independent of each other, samples within a launch are not.
// No distribution is assumed, nothing is drawn at random: the same ratios give the same verdict.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

namespace lossgrid {

/// The median of the log-ratios as a ratio, and the interval that holds the true one with
/// probability `confidence` or more. No interval: low 0, high infinite.
struct MedianRatio {
  double median = 1;
  double low = 0;
  double high = 0;
  double confidence = 1;
};

/// The interval x_(k) .. x_(n-k+1) of the sorted ratios with the largest k for which
/// 2 P(Binomial(n, 1/2) <= k - 1) <= alpha; that is its error exactly, for every continuous
/// distribution (David and Nagaraja, "Order Statistics", 2003, 7.1). Ratios > 0. Throws internal
/// when there are none.
MedianRatio median_ratio(std::span<const double> ratios, double alpha);

enum class AbVerdict {
  ok,            // slower by less than the margin for certain
  improved,      // faster by more than the margin for certain
  inconclusive,  // the interval reaches to both sides of the margin
  regressed,     // slower by more than the margin for certain
};

/// "OK", "IMPROVED", "INCONCLUSIVE", "REGRESSED"
std::string_view name(AbVerdict verdict);
/// The way back. Throws bad_input.
AbVerdict ab_verdict(std::string_view text);

/// `margin`: the part of A's time that B may take longer, 0.1 for 10 %.
AbVerdict judge(const MedianRatio& ratio, double margin);

/// Launches after which a comparison is judged. The first verdict that is not inconclusive ends it.
inline constexpr std::array<std::size_t, 3> kLooks{12, 20, 30};
/// Of one look; the three together err in less than one of twenty comparisons (0.0064 + 0.0118 +
/// 0.0161 by the exact intervals).
inline constexpr double kLookAlpha = 0.022;

/// The alpha of one of `comparisons` that are judged together. Few of them need no correction: with
/// a margin nothing is regressed by chance alone; beyond 20 it is divided by their number
/// (Bonferroni).
double look_alpha(std::size_t comparisons);

/// Takes ratios launch by launch until they are enough.
class SequentialComparison {
 public:
  SequentialComparison(double margin, double alpha) : margin_(margin), alpha_(alpha) {}

  /// Of one launch, > 0. Not after it is decided.
  void add(double ratio);
  /// Whether a look found a verdict, or all of them found none.
  bool is_decided() const { return decided_; }
  /// As of the last look, inconclusive before the first.
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
