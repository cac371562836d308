// SPDX-License-Identifier: Apache-2.0
// Parallel loop over rows of logits.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "harness/problem/batch/problem.h"

namespace lossgrid {

/// Calls body(token, logits) for each of `tokens`, with the logits of all ids, on up to `threads`
/// threads. Rows are read by as many at once as their source likes best (LogitsSource), of the same
/// bits as one by one. Returns the nanoseconds spent on reading, those of all threads added up.
std::int64_t for_each_row(
    const Problem& problem, std::span<const std::int64_t> tokens, int threads,
    const std::function<void(std::int64_t token, std::span<const double> logits)>& body);

}  // namespace lossgrid
