// SPDX-License-Identifier: Apache-2.0
// Error: the one exception type, with a code. Code below the runner throws it; the runner turns it
// into the status of a trial, and the command line into an exit code, once each. Messages are one
// line that names the thing and the rule it breaks. Any thread may throw; nothing here has state.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>

namespace lossgrid {

enum class ErrorCode {
  usage,              // a flag or an argument
  bad_input,          // a case, suite, bundle or report that breaks its rules
  unsupported,        // right input that this implementation or build cannot take
  not_enough_memory,  // the request exceeds the machine's memory
  device_lost,        // a GPU failed; every later call of the process to this GPU fails too
  process_died,       // a process that worked for this rank has ended
  rank_failed,        // this rank threw, left early or called another collective than its peers
  aborted,            // this rank was woken because another one failed
  timeout,            // the deadline of the trial has passed
  io,                 // the file system refused
  internal,           // a defect of this program
};

std::string_view name(ErrorCode code);

/// Possible origin of a failure, as seen from the place where it was noticed.
enum class Cause {
  unknown,
  own,         // this rank: its own code, or the process that works for it
  collective,  // any member of the collective in which this rank was
  others,      // another rank; this rank had finished its own work
};

class Error : public std::runtime_error {
 public:
  /// Replaces a zero byte of `message`, at which what() would end, by \u0000.
  Error(ErrorCode code, const std::string& message);

  ErrorCode code() const { return code_; }
  /// Returns further lines, such as a traceback; often "".
  const std::string& detail() const { return detail_; }
  Error with_detail(std::string detail) && {
    detail_ = std::move(detail);
    return std::move(*this);
  }
  Cause cause() const { return cause_; }
  Error with_cause(Cause cause) && {
    cause_ = cause;
    return std::move(*this);
  }

 private:
  ErrorCode code_;
  Cause cause_ = Cause::unknown;
  std::string detail_;
};

/// Throws bad_input with a formatted message.
template <typename... Args>
[[noreturn]] void throw_bad_input(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorCode::bad_input, fmt::format(format, std::forward<Args>(args)...));
}

/// Exit codes of the process; `worst` combines them. A run that SIGHUP, SIGINT or SIGTERM ended
/// early has 129, 130 or 143 (exit_code_of_interrupt). 1, 110, 124, 137 and 139 are left to
/// launchers and shells.
enum class ExitCode : int {
  ok = 0,
  correctness = 10,
  time_regression = 11,
  cost_regression = 12,  // memory or communication
  inconclusive = 13,
  rank_crashed = 14,
  hang = 15,
  usage = 64,
  bad_input = 65,
  nothing_ran = 77,
};

/// Returns the code of a run with both outcomes: 14, 15 > 10 > 12 > 11 > 13 > 0.
ExitCode worst(ExitCode a, ExitCode b);

/// Returns the exit code of a process that could not write all of its output: `code` if it stands
/// for a failure, else bad_input.
ExitCode exit_code_without_output(ExitCode code);

/// Returns the exit code of a process that ends by an Error of this code.
ExitCode exit_code(ErrorCode code);

}  // namespace lossgrid
