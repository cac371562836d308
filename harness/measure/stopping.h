// SPDX-License-Identifier: Apache-2.0
// Stopping rule of a timing: the precision of the median of a few samples, and the rule that ends
// the rounds. The rule depends on measured times, so one rank applies it and broadcasts the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace lossgrid {

/// Returns the standard error of the median / median, from two order statistics:
///   (x_(n-k+1) - x_(k)) / (2 z), k = (n + 1) / 2 - z sqrt(n / 4) rounded, at least 1,
/// with z = 2.576, the 99.5 % point of the normal distribution. McKean and Schrader, "A comparison
/// of methods for studentizing the sample median", Communications in Statistics - Simulation and
/// Computation 13, 1984. No distribution is assumed; from 20 samples on, one slow sample does not
/// move the result. Samples are > 0. Infinite for less than two samples.
double relative_stderr_of_median(std::span<const double> samples);

/// Returns the number of different values. A clock with slow ticks gives few.
std::size_t distinct_samples(std::span<const std::int64_t> samples_ns);

/// Fewest distinct samples from which a median and its error are meaningful.
inline constexpr std::size_t kFewestDistinctSamples = 10;

enum class StopReason {
  target,       // every median is precise enough
  time_budget,  // the time ended first
  most_samples,
};

/// Returns "target", "time_budget" or "most_samples".
std::string_view name(StopReason reason);

/// Rounds end when there are `min_samples` samples and every item is within the target, or when the
/// time is over.
struct StopRule {
  std::int64_t min_samples = kFewestDistinctSamples;
  double target_stderr_ratio = 0.01;
  std::int64_t max_time_ns = 30'000'000'000;
  std::int64_t max_samples = 1000;  // limit of reports, enough for times of a microsecond
};

}  // namespace lossgrid
