// SPDX-License-Identifier: Apache-2.0
#include "reports/record/timing_status.h"

namespace lossgrid {

std::string_view name(TimingStatus status) {
  switch (status) {
    case TimingStatus::timed:
      return "timed";
    case TimingStatus::skipped:
      return "skipped";
    case TimingStatus::unstable:
      return "unstable";
    case TimingStatus::above_ceiling:
      return "above_ceiling";
    case TimingStatus::failed:
      return "failed";
    case TimingStatus::timeout:
      return "timeout";
    case TimingStatus::error:
      return "error";
    case TimingStatus::crashed:
      return "crashed";
    case TimingStatus::out_of_memory:
      return "out_of_memory";
  }
  return "?";
}

const std::vector<TimingStatus>& timing_statuses() {
  using enum TimingStatus;
  static const std::vector<TimingStatus> statuses{timed,   skipped, unstable, above_ceiling, failed,
                                                  timeout, error,   crashed,  out_of_memory};
  return statuses;
}

TimingStatus timing_status(std::string_view text) {
  for (const TimingStatus status : timing_statuses()) {
    if (name(status) == text) return status;
  }
  throw_bad_input("unknown status '{}' of a timing", text);
}

bool was_cut_short(TimingStatus status) {
  return status >= TimingStatus::timeout;
}

ExitCode exit_code_of(TimingStatus status) {
  if (status == TimingStatus::timeout) return ExitCode::hang;
  if (was_cut_short(status)) return ExitCode::rank_crashed;
  if (status == TimingStatus::failed) return ExitCode::correctness;
  return status == TimingStatus::above_ceiling ? ExitCode::time_regression : ExitCode::ok;
}

}  // namespace lossgrid
