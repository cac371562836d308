// SPDX-License-Identifier: Apache-2.0
#include "harness/core/error.h"

#include <array>
#include <utility>

namespace lossgrid {

std::string_view name(ErrorCode code) {
  switch (code) {
    case ErrorCode::usage:
      return "usage";
    case ErrorCode::bad_input:
      return "bad_input";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::not_enough_memory:
      return "not_enough_memory";
    case ErrorCode::device_lost:
      return "device_lost";
    case ErrorCode::process_died:
      return "process_died";
    case ErrorCode::rank_failed:
      return "rank_failed";
    case ErrorCode::aborted:
      return "aborted";
    case ErrorCode::timeout:
      return "timeout";
    case ErrorCode::io:
      return "io";
    case ErrorCode::internal:
      return "internal";
  }
  return "internal";
}

namespace {

std::string without_zero_bytes(std::string message) {
  for (std::size_t at = message.find('\0'); at != std::string::npos; at = message.find('\0', at)) {
    message.replace(at, 1, "\\u0000");
  }
  return message;
}

int severity(ExitCode code) {
  constexpr std::array<std::pair<ExitCode, int>, 10> kOrder{{{ExitCode::ok, 0},
                                                             {ExitCode::nothing_ran, 1},
                                                             {ExitCode::inconclusive, 2},
                                                             {ExitCode::time_regression, 3},
                                                             {ExitCode::cost_regression, 4},
                                                             {ExitCode::correctness, 5},
                                                             {ExitCode::hang, 6},
                                                             {ExitCode::rank_crashed, 7},
                                                             {ExitCode::usage, 8},
                                                             {ExitCode::bad_input, 9}}};
  for (const auto& [entry, rank] : kOrder) {
    if (entry == code) return rank;
  }
  return 0;
}

}  // namespace

Error::Error(ErrorCode code, const std::string& message)
    : std::runtime_error(without_zero_bytes(message)), code_(code) {}

ExitCode worst(ExitCode a, ExitCode b) {
  return severity(a) >= severity(b) ? a : b;
}

ExitCode exit_code_without_output(ExitCode code) {
  const bool is_failure =
      code != ExitCode::ok && code != ExitCode::nothing_ran && code != ExitCode::inconclusive;
  return is_failure ? code : ExitCode::bad_input;
}

ExitCode exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::usage:
      return ExitCode::usage;
    case ErrorCode::bad_input:
    case ErrorCode::io:
      return ExitCode::bad_input;
    case ErrorCode::unsupported:
    case ErrorCode::not_enough_memory:
      return ExitCode::nothing_ran;
    case ErrorCode::timeout:
      return ExitCode::hang;
    case ErrorCode::device_lost:
    case ErrorCode::process_died:
    case ErrorCode::rank_failed:
    case ErrorCode::aborted:
    case ErrorCode::internal:
      return ExitCode::rank_crashed;
  }
  return ExitCode::rank_crashed;
}

}  // namespace lossgrid
