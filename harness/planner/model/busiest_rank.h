// SPDX-License-Identifier: Apache-2.0
// Rows of the CP ranks that predict a token: some ranks have more padding than others, and all wait
// for the rank with the most rows.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/comm/process_grid.h"
#include "harness/problem/batch/packed_batch.h"

namespace lossgrid {

/// Returns by CP rank the number of rows that predict a token, from lengths alone, without a visit
/// of rows.
std::vector<std::int64_t> predicting_rows(const PackedBatch& batch, const Grid& grid);

/// CP rank with the most rows that predict a token; the first of equal ranks.
struct BusiestRank {
  std::int64_t cp_rank = 0;
  std::int64_t rows = 0;
  double mean_rows = 0;  // mean over all CP ranks
};

BusiestRank busiest_rank(const PackedBatch& batch, const Grid& grid);

}  // namespace lossgrid
