// SPDX-License-Identifier: Apache-2.0
#include "harness/loss/objective.h"

namespace lossgrid {

std::optional<Enclosure> MetricTruth::value() const {
  if (reduction == Reduction::count) return amount;
  if (count == 0) return std::nullopt;
  return reduction == Reduction::mean ? amount / Enclosure(count) : amount;
}

}  // namespace lossgrid
