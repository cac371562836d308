// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/truth/for_each_row.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "harness/core/clock.h"
#include "harness/verify/truth/for_each_index.h"

namespace lossgrid {

std::int64_t for_each_row(
    const Problem& problem, std::span<const std::int64_t> tokens, int most_threads,
    const std::function<void(std::int64_t token, std::span<const double> logits)>& body) {
  const auto vocab = static_cast<std::size_t>(problem.spec.vocab);
  const std::int64_t count = std::ssize(tokens);
  const int threads = threads_for(count * problem.spec.vocab, most_threads);
  // No thread is left without rows for the sake of larger blocks.
  const std::int64_t of_thread = (count + threads - 1) / threads;
  const std::int64_t rows = std::clamp<std::int64_t>(of_thread, 1, problem.logits->rows_at_once());
  std::atomic<std::int64_t> reading_ns = 0;
  for_each_index((count + rows - 1) / rows, threads, [&](std::int64_t block) {
    const auto begin = static_cast<std::size_t>(block * rows);
    const auto block_rows = static_cast<std::size_t>(std::min(rows, count - block * rows));
    const std::span<const std::int64_t> own = tokens.subspan(begin, block_rows);
    const std::int64_t start = steady_clock_ns();
    std::vector<double> logits(own.size() * vocab);
    problem.logits->read_rows(own, logits);
    reading_ns += steady_clock_ns() - start;
    for (std::size_t k = 0; k < own.size(); ++k) {
      body(own[k], std::span<const double>(logits).subspan(k * vocab, vocab));
    }
  });
  return reading_ns;
}

}  // namespace lossgrid
