// SPDX-License-Identifier: Apache-2.0
#include "reports/record/ab_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/core/error.h"

namespace lossgrid {
namespace {

constexpr std::array kVerdicts{AbVerdict::ok, AbVerdict::improved, AbVerdict::inconclusive,
                               AbVerdict::regressed};

}  // namespace

MedianRatio median_ratio(std::span<const double> ratios, double alpha) {
  if (ratios.empty()) throw Error(ErrorCode::internal, "a median of no ratios");
  std::vector<double> sorted(ratios.begin(), ratios.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size();
  MedianRatio out;
  out.median = n % 2 == 1 ? sorted[n / 2] : std::sqrt(sorted[n / 2 - 1] * sorted[n / 2]);
  out.high = std::numeric_limits<double>::infinity();
  // error: 2 P(Binomial(n, 1/2) <= k - 1), term: P(Binomial(n, 1/2) = k)
  double term = std::ldexp(1.0, -static_cast<int>(n));
  double error = 0;
  for (std::size_t k = 0; 2 * (k + 1) <= n; ++k) {
    error += 2 * term;
    if (error > alpha) break;
    out.low = sorted[k];
    out.high = sorted[n - 1 - k];
    out.confidence = 1 - error;
    term *= static_cast<double>(n - k) / static_cast<double>(k + 1);
  }
  return out;
}

std::string_view name(AbVerdict verdict) {
  switch (verdict) {
    case AbVerdict::ok:
      return "OK";
    case AbVerdict::improved:
      return "IMPROVED";
    case AbVerdict::inconclusive:
      return "INCONCLUSIVE";
    case AbVerdict::regressed:
      return "REGRESSED";
  }
  return "?";
}

AbVerdict ab_verdict(std::string_view text) {
  for (const AbVerdict verdict : kVerdicts) {
    if (name(verdict) == text) return verdict;
  }
  throw_bad_input("unknown verdict '{}' of an A/B comparison", text);
}

AbVerdict judge(const MedianRatio& ratio, double margin) {
  const double limit = 1 + margin;
  if (ratio.low > limit) return AbVerdict::regressed;
  if (ratio.high < 1 / limit) return AbVerdict::improved;
  return ratio.high < limit ? AbVerdict::ok : AbVerdict::inconclusive;
}

double look_alpha(std::size_t comparisons) {
  constexpr std::size_t kFew = 20;
  return comparisons <= kFew ? kLookAlpha : kLookAlpha / static_cast<double>(comparisons);
}

void SequentialComparison::add(double ratio) {
  launch_ratios_.push_back(ratio);
  if (std::find(kLooks.begin(), kLooks.end(), launch_ratios_.size()) == kLooks.end()) return;
  ratio_ = median_ratio(launch_ratios_, alpha_);
  verdict_ = judge(ratio_, margin_);
  decided_ = verdict_ != AbVerdict::inconclusive || launch_ratios_.size() == kLooks.back();
}

}  // namespace lossgrid
