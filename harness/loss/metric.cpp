// SPDX-License-Identifier: Apache-2.0
#include "harness/loss/metric.h"

#include <algorithm>
#include <limits>

namespace lossgrid {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Returns the smaller or larger of the metrics that have elements.
double extreme(const Metric& a, const Metric& b) {
  if (a.count == 0) return b.amount;
  if (b.count == 0) return a.amount;
  if (a.amount != a.amount || b.amount != b.amount) return kNaN;
  return a.reduction == Reduction::min ? std::min(a.amount, b.amount)
                                       : std::max(a.amount, b.amount);
}

}  // namespace

std::string_view name(Reduction reduction) {
  switch (reduction) {
    case Reduction::count:
      return "count";
    case Reduction::sum:
      return "sum";
    case Reduction::mean:
      return "mean";
    case Reduction::min:
      return "min";
    case Reduction::max:
      return "max";
    default:
      return "global";
  }
}

std::optional<double> Metric::value() const {
  if (reduction == Reduction::count) return amount;
  if (count == 0) return std::nullopt;
  return reduction == Reduction::mean ? amount / count : amount;
}

Metric joined(const Metric& a, const Metric& b) {
  Metric both{a.reduction, a.amount + b.amount, a.count + b.count};
  if (a.reduction != b.reduction) {
    both.amount = kNaN;
  } else if (a.reduction == Reduction::min || a.reduction == Reduction::max) {
    both.amount = extreme(a, b);
  } else if (a.reduction == Reduction::global) {
    both.amount = a.amount == b.amount ? a.amount : kNaN;
  }
  return both;
}

void join_metrics(Metrics& into, const Metrics& other) {
  for (const auto& [name, metric] : other) {
    const auto [at, is_new] = into.try_emplace(name, metric);
    if (!is_new) at->second = joined(at->second, metric);
  }
}

}  // namespace lossgrid
