// SPDX-License-Identifier: Apache-2.0
// Times one case for a test: a few samples, however precise the medians are by then.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "harness/runner/timing/timing.h"

namespace lossgrid {

inline TimingRequest few_samples(std::int64_t min_samples = 4) {
  TimingRequest request;
  request.min_samples = min_samples;
  request.target_stderr = 1e12;  // met on a busy machine too
  request.max_seconds = 1000;
  return request;
}

inline TimingOutcome time_case(
    const std::string& case_text, const std::vector<std::string>& names, const Grid& grid,
    const TimingRequest& request = few_samples(), CacheMode cache = CacheMode::hot,
    std::chrono::milliseconds deadline = std::chrono::milliseconds(60000)) {
  const PreparedProblem prepared = prepare(make_problem(parse_case(case_text)));
  return time_implementations(prepared, names, grid, request, cache, deadline);
}

inline const TimingRow& row_of(const TimingRecord& record, std::string_view implementation,
                               std::string_view phase) {
  for (const TimingRow& row : record.rows) {
    if (row.implementation == implementation && row.phase == phase) return row;
  }
  throw std::runtime_error(fmt::format("no row {} {}: {}", implementation, phase, record.reason));
}

}  // namespace lossgrid
