// SPDX-License-Identifier: Apache-2.0
// Change points: the places where a series changed for good. Times are noisy: E-divisive with a
// t-test finds changes of their mean. Counters are exact: every difference is a change. Results are
// for people to look at and never fail a run: about one in a thousand points of a steady series is
// a false change.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "reports/change/history.h"

namespace lossgrid {

struct ChangePoint {
  std::size_t index = 0;  // of the first point after the change
  // Mean after / mean before, each up to the change next to it; geometric means for times.
  // Infinite for a counter that was 0.
  double ratio = 1;
  double p_value = 0;  // of a t-test of the two; 0 for counters
};

struct ChangePointRule {
  std::size_t window = 50;  // points looked at together; windows overlap by half
  double max_p_value = 1e-3;
  double min_change_ratio = 0.02;
  std::size_t min_points_before = 6;  // since the change before
  std::size_t min_points_after = 2;
};

/// Returns the changes of the mean logarithm of `values` (> 0), in order. E-divisive (Matteson and
/// James 2014) proposes points within a window; those with a p-value below ten times the rule's are
/// candidates, and the least certain one is dropped until all that are left keep the rule (as
/// Hunter does, Fleming et al. 2023).
std::vector<ChangePoint> mean_changes(std::span<const double> values, ChangePointRule rule = {});

/// Returns every value that differs from the one before it.
std::vector<ChangePoint> exact_changes(std::span<const double> values);

/// Returns mean_changes of a time, exact_changes of a counter.
std::vector<ChangePoint> change_points(const HistorySeries& series);

/// Returns the two-sided p-value of Student's t with `degrees` degrees of freedom (>= 1). Exact:
/// the finite series of Abramowitz and Stegun, 26.7.3 and 26.7.4.
double student_p_value(double t, std::size_t degrees);

}  // namespace lossgrid
