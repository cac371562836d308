// SPDX-License-Identifier: Apache-2.0
#include "harness/planner/model/busiest_rank.h"

#include <algorithm>
#include <numeric>

#include "harness/problem/batch/sharding.h"

namespace lossgrid {

std::vector<std::int64_t> predicting_rows(const PackedBatch& batch, const Grid& grid) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(grid.cp), 0);
  const std::int64_t chunks = cp_chunks(batch.cp_layout, grid.cp);
  const bool cuts = rules_of(batch.cp_layout).cuts_sequences;
  for (std::int64_t i = 0; i < batch.sequences(); ++i) {
    const std::int64_t first = batch.cu_seqlens_padded[i];
    const std::int64_t last = first + std::max<std::int64_t>(0, batch.length(i) - batch.ahead);
    const std::int64_t begin = cuts ? first : 0;
    const std::int64_t length = cuts ? batch.padded_length(i) : batch.padded_tokens();
    const std::int64_t chunk_rows = length / chunks;
    if (chunk_rows == 0) continue;
    for (std::int64_t c = (first - begin) / chunk_rows; c < chunks; ++c) {
      const std::int64_t from = std::max(first, begin + c * chunk_rows);
      const std::int64_t to = std::min(last, begin + (c + 1) * chunk_rows);
      if (from >= last) break;
      const int owner =
          cp_turn(batch.cp_layout, grid.cp, c / grid.cp, static_cast<int>(c % grid.cp));
      rows[static_cast<std::size_t>(owner)] += std::max<std::int64_t>(0, to - from);
    }
  }
  return rows;
}

BusiestRank busiest_rank(const PackedBatch& batch, const Grid& grid) {
  const std::vector<std::int64_t> rows = predicting_rows(batch, grid);
  const auto most = std::max_element(rows.begin(), rows.end());
  const std::int64_t all = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  return {most - rows.begin(), *most, static_cast<double>(all) / static_cast<double>(rows.size())};
}

}  // namespace lossgrid
