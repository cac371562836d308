// SPDX-License-Identifier: Apache-2.0
// Quantiles by sorting a copy: samples are tens, not millions. Arguments that make no sense are an
// error of the caller, never a NaN in a report.
#include "harness/measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "harness/core/error.h"

namespace lossgrid {

double quantile(std::span<const double> samples, double p) {
  if (samples.empty()) throw Error(ErrorCode::internal, "a quantile of no samples");
  if (!(p >= 0 && p <= 1)) {
    throw Error(ErrorCode::internal, fmt::format("a quantile at {}, not in [0, 1]", p));
  }
  std::vector<double> sorted(samples.begin(), samples.end());
  // NaN has no place in an order.
  if (std::any_of(sorted.begin(), sorted.end(), [](double x) { return std::isnan(x); })) {
    throw Error(ErrorCode::internal, "a quantile of samples with a NaN");
  }
  std::sort(sorted.begin(), sorted.end());
  const double place = static_cast<double>(sorted.size() - 1) * p;
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - static_cast<double>(below));
}

double median(std::span<const double> samples) {
  return quantile(samples, 0.5);
}

double median_of_pair_ratios(std::span<const double> samples, std::span<const double> baseline) {
  if (samples.size() != baseline.size()) {
    throw Error(ErrorCode::internal,
                fmt::format("{} samples cannot be paired with {} of the baseline", samples.size(),
                            baseline.size()));
  }
  std::vector<double> ratios;
  for (std::size_t k = 0; k < samples.size(); ++k) {
    if (!(baseline[k] > 0)) {
      throw Error(ErrorCode::internal, fmt::format("a ratio to a baseline of {}", baseline[k]));
    }
    ratios.push_back(samples[k] / baseline[k]);
  }
  return median(ratios);
}

}  // namespace lossgrid
