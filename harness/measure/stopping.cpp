// SPDX-License-Identifier: Apache-2.0
// Order statistics by sorting copies: this runs between rounds, never inside of a timed part.
#include "harness/measure/stopping.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "harness/measure/statistics.h"

namespace lossgrid {

double relative_stderr_of_median(std::span<const double> samples) {
  constexpr double kZ = 2.5758293035489004;  // Phi^-1(0.995)
  if (samples.size() < 2) return std::numeric_limits<double>::infinity();
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const auto n = static_cast<double>(sorted.size());
  const double place = std::round((n + 1) / 2 - kZ * std::sqrt(n / 4));
  const auto k = static_cast<std::size_t>(std::max(1.0, place));
  return (sorted[sorted.size() - k] - sorted[k - 1]) / (2 * kZ) / median(sorted);
}

std::size_t distinct_samples(std::span<const std::int64_t> samples_ns) {
  std::vector<std::int64_t> sorted(samples_ns.begin(), samples_ns.end());
  std::sort(sorted.begin(), sorted.end());
  return static_cast<std::size_t>(
      std::distance(sorted.begin(), std::unique(sorted.begin(), sorted.end())));
}

std::string_view name(StopReason reason) {
  switch (reason) {
    case StopReason::target:
      return "target";
    case StopReason::time_budget:
      return "time_budget";
    case StopReason::most_samples:
      return "most_samples";
  }
  return "?";
}

}  // namespace lossgrid
