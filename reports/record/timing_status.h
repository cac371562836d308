// SPDX-License-Identifier: Apache-2.0
// Statuses of timings: names, order and exit codes.
#pragma once

#include <string_view>
#include <vector>

#include "harness/core/error.h"

namespace lossgrid {

/// Status of a row; a record has the worst of its rows. The worst is last.
enum class TimingStatus {
  timed,
  skipped,        // cannot be timed here, with the reason
  unstable,       // fewer than 10 distinct samples
  above_ceiling,  // faster than the machine can be: the measurement or the cost model is wrong
  failed,         // the outputs of the last timed iteration are wrong
  timeout,        // the deadline passed; a rank hangs
  error,          // a rank threw
  crashed,        // the process of a rank died, or had to end: its GPU was lost
  out_of_memory,  // a rank could not get memory
};

std::string_view name(TimingStatus status);
/// Inverse of `name`. Throws bad_input.
TimingStatus timing_status(std::string_view text);

/// True when a rank ended it before its checks: timeout and all behind it.
bool was_cut_short(TimingStatus status);

/// All of them, in their order.
const std::vector<TimingStatus>& timing_statuses();

/// Exit code of a run with this timing alone.
ExitCode exit_code_of(TimingStatus status);

}  // namespace lossgrid
