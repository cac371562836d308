// SPDX-License-Identifier: Apache-2.0
// Metric: a number of a step, with the rule that joins its parts. The same rule joins microbatches,
// CP ranks and DP ranks, so that no partition of a batch changes a metric. A metric without
// elements has no value (null in reports), never a sentinel.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace lossgrid {

enum class Reduction {
  count,  // a whole number, adds up exactly; always has a value
  sum,    // terms over the denominators of the global batch
  mean,   // amount and count both add up; value = amount / count
  min,    // minimum of count elements
  max,
  global,  // number of the global batch, exactly equal in every part
};

std::string_view name(Reduction reduction);

struct Metric {
  Reduction reduction = Reduction::sum;
  double amount = 0;
  double count = 1;  // number of elements; 0: the metric has no value

  std::optional<double> value() const;
  friend bool operator==(const Metric&, const Metric&) = default;
};

using Metrics = std::map<std::string, Metric>;

/// Returns the metric of both parts together; NaN if the parts differ in a global number or in the
/// reduction.
Metric joined(const Metric& a, const Metric& b);

/// Joins by name; metrics with a name that `into` lacks are added.
void join_metrics(Metrics& into, const Metrics& other);

}  // namespace lossgrid
