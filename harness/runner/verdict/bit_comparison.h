// SPDX-License-Identifier: Apache-2.0
// The determinism verdicts of a trial that need other trials: whether its bits are those of earlier
// grids of the same case and implementation.
#pragma once

#include <map>
#include <optional>

#include "reports/record/record.h"

namespace lossgrid {

/// One for each case and implementation; sees its grids in order.
class BitComparison {
 public:
  /// Fills the verdicts on packing and TP size. A claim that does not hold turns the trial into a
  /// failed one.
  void judge(TrialRecord& record);

 private:
  std::map<int, TrialRecord> by_tp_;
  std::optional<TrialRecord> any_;
};

}  // namespace lossgrid
