// SPDX-License-Identifier: Apache-2.0
// `RelativeTime`: the time of a row in a form that is comparable over runs. Absolute times hold for
// a machine and its load at that moment; the ratio to a reference timed in turn in the same process
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

/// Returns the time over that of the baseline. For the baseline itself, and without one: over its
/// ceiling, the time in which the machine moves as many bytes. For a row of unknown bytes: over the
/// first ceiling of the record that writes (the copy of the logits or a product of the lm_head).
/// nullopt when the row has no valid time or no reference.
std::optional<RelativeTime> relative_time(const TimingRecord& timing, const TimingRow& row);

}  // namespace lossgrid
