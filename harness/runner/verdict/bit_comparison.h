// SPDX-License-Identifier: Apache-2.0
// Determinism verdicts that need other trials: the bits of a trial against those of earlier grids
// of the same case and implementation.
#pragma once

#include <map>
#include <optional>

#include "reports/record/record.h"

namespace lossgrid {

/// One for each case and implementation; is given its grids in order.
class BitComparison {
 public:
  /// Compares a trial that passed; leaves all others alone. Fills its verdicts on packing and TP
  /// size and judges it anew: it fails where a claim does not hold.
  void judge(TrialRecord& record);

 private:
  std::map<int, TrialRecord> first_by_tp_;
  std::optional<TrialRecord> first_;
};

}  // namespace lossgrid
