// SPDX-License-Identifier: Apache-2.0
// The time of a row in a form that another run can be compared with. Absolute times hold for a
// machine and its load at that moment; the ratio to a reference timed in turn in the same process
// cancels both.
#pragma once

#include <optional>
#include <string>

#include "reports/record/timing_record.h"

namespace lossgrid {

/// Time of a row over that of its reference in the same run.
struct RelativeTime {
  std::string reference;    // the baseline of the speed-ups, or a ceiling of the machine
  double ratio = 0;         // > 0; below 1 is faster than the reference
  double stderr_ratio = 0;  // standard error of the ratio / ratio
};

/// Over the baseline; of the baseline itself, and where there is none, over its ceiling: what the
/// machine needs to move as many bytes. A row that does not tell its bytes is taken over the first
/// ceiling of the record that writes, the copy of the logits or a product of the head. Empty when
/// the row has no valid time or nothing to compare it with.
std::optional<RelativeTime> relative_time(const TimingRecord& timing, const TimingRow& row);

}  // namespace lossgrid
