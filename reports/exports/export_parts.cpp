// SPDX-License-Identifier: Apache-2.0
#include "reports/exports/export_parts.h"

#include <fmt/format.h>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "reports/text/table.h"

namespace lossgrid {
namespace {

std::string_view meaning(ExitCode code, bool compares) {
  switch (code) {
    case ExitCode::ok:
      return "all as it should be";
    case ExitCode::correctness:
      return "correctness";
    case ExitCode::time_regression:
      return compares ? "time" : "faster than the machine can be";
    case ExitCode::cost_regression:
      return "memory or communication";
    case ExitCode::inconclusive:
      return "inconclusive";
    case ExitCode::rank_crashed:
      return "a rank failed, or the meter is wrong";
    case ExitCode::hang:
      return "hang";
    case ExitCode::usage:
      return "usage";
    case ExitCode::bad_input:
      return "bad input";
    case ExitCode::nothing_ran:
      return "nothing ran";
  }
  return "unknown";
}

std::string outcome(const RunRecord& run) {
  if (is_good(run)) return "passed";
  if (run.status != "complete") {
    std::string out = "incomplete (ended in the middle";
    if (!run.begun_id.empty()) out += " of " + run.begun_id;
    if (run.exit_code != 0) out += fmt::format(", exit code {}", run.exit_code);
    return out + ")";
  }
  return fmt::format("failed ({}, exit code {})",
                     meaning(static_cast<ExitCode>(run.exit_code), !run.ab.empty()), run.exit_code);
}

}  // namespace

std::string verdict_line(const RunRecord& run) {
  return outcome(run) + ": " + join(count_lines(run), "; ");
}

std::string UniqueNames::operator()(const std::string& name) {
  const int count = ++seen_[name];
  return count == 1 ? name : (*this)(fmt::format("{} #{}", name, count));
}

}  // namespace lossgrid
