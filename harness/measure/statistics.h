// SPDX-License-Identifier: Apache-2.0
// Summaries of a few samples of a time on a shared machine: order statistics, which one slow sample
// does not move, and the ratio of two items that were timed in turn. No sample is dropped.
// Functions throw internal without samples, for a NaN sample, or for an argument out of its range.
#pragma once

#include <span>

namespace lossgrid {

/// Returns the p-quantile, p in [0, 1], by linear interpolation between the two nearest samples:
/// with the sorted samples x_0 .. x_(n-1) and h = (n - 1) p,
///   x_floor(h) + (h - floor(h)) (x_ceil(h) - x_floor(h)).
/// Definition 7 of Hyndman and Fan, "Sample quantiles in statistical packages", 1996; the default
/// of R and NumPy.
double quantile(std::span<const double> samples, double p);

/// Returns the 0.5-quantile: the middle sample, or the mean of the two in the middle.
double median(std::span<const double> samples);

/// Returns the median over k of samples[k] / baseline[k], for samples that were taken in turn: a
/// temporary slowdown of the machine is in both members of a pair. Requires equal sizes and every
/// baseline[k] > 0.
double median_of_pair_ratios(std::span<const double> samples, std::span<const double> baseline);

}  // namespace lossgrid
