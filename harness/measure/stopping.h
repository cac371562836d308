// SPDX-License-Identifier: Apache-2.0
// When enough was measured: how well the median of a few samples is known, and the rule that ends
// the rounds. The rule looks at measured times, so one rank asks it and tells the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace lossgrid {

/// Standard error of the median / median, from two order statistics: (x_(n-k+1) - x_(k)) / (2 z)
/// with z = 2.576, the 99.5 % point of the normal distribution, and k = (n + 1) / 2 - z sqrt(n / 4)
/// rounded, at least 1. McKean and Schrader, "A comparison of methods for studentizing the sample
/// median", Communications in Statistics - Simulation and Computation 13, 1984. No distribution is
/// assumed, and from 20 samples on one slow sample does not move it. Samples > 0. Infinite for less
/// than two samples.
double relative_stderr_of_median(std::span<const double> samples);

/// How many different values there are. A clock that ticks slowly gives few.
std::size_t distinct_samples(std::span<const std::int64_t> samples_ns);

/// Below this many distinct samples a median and its error are not worth much.
inline constexpr std::size_t kFewestDistinctSamples = 10;

enum class StopReason {
  target,       // every median is known well enough
  time_budget,  // before that, the time was over
  most_samples,
};

/// "target", "time_budget", "most_samples"
std::string_view name(StopReason reason);

/// Rounds end when there are `min_samples` and every item is within the target, or when the time is
/// over, whatever is reached by then.
struct StopRule {
  std::int64_t min_samples = kFewestDistinctSamples;
  double target_stderr_ratio = 0.01;
  std::int64_t max_time_ns = 30'000'000'000;
  std::int64_t max_samples = 1000;  // what reports hold; times of a microsecond need no more
};

}  // namespace lossgrid
