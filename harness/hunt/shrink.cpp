// SPDX-License-Identifier: Apache-2.0
#include "harness/hunt/shrink.h"

#include <algorithm>
#include <chrono>

#include "harness/core/error.h"
#include "harness/hunt/reductions.h"
#include "harness/runner/run.h"

namespace lossgrid {

bool Shrinker::fails(const FailingTrial& trial, Shrunk& found, bool explains) const {
  RunOptions options = options_;
  options.explains = explains;
  ProblemCache problems;
  bool fails = false;
  const std::string last = format_grid(trial.grids.back());
  try {
    found.must_end =
        run_suites({suite_of(trial, backend_)}, options, problems, [&](const TrialRecord& record) {
          if (record.grid() != last || !is_bad(record.status)) return true;
          const std::vector<std::string> failed = names_of_failure(record);
          fails = std::find(failed.begin(), failed.end(), trial.check) != failed.end();
          if (fails) found.record = record;
          return true;
        });
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input) throw;  // a case that the objective refuses
  }
  return options_.ranks.agree_on_any(fails);
}

Shrunk Shrinker::shrink(const FailingTrial& trial) const {
  const auto begin = std::chrono::steady_clock::now();
  const auto is_over = [&] {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    return options_.ranks.agree_on_any(options_.ranks.reports() && spent.count() > seconds_);
  };
  Shrunk smallest{trial, {}, false};
  bool is_smaller = true;
  while (is_smaller && !smallest.must_end) {
    is_smaller = false;
    for (const FailingTrial& candidate : smaller_trials(smallest.trial)) {
      if (is_over()) break;
      Shrunk found{candidate, {}, false};
      is_smaller = fails(candidate, found, false);
      smallest.must_end = found.must_end;
      if (is_smaller) smallest = std::move(found);
      if (is_smaller || smallest.must_end) break;
    }
  }
  if (!smallest.must_end) fails(smallest.trial, smallest, true);
  return smallest;
}

}  // namespace lossgrid
