// SPDX-License-Identifier: Apache-2.0
// Error of the gradient of the lm_head's weight by the number of chunks. Chunks of rows are added
// to one buffer one after the other, so rounding of that buffer shows here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reports/record/record.h"

namespace lossgrid {

/// One implementation with its options: the most chunks and the worst errors over the grids.
struct ChunkErrorRow {
  std::string case_title;
  std::int64_t chunks = 0;     // that a rank goes through
  std::string implementation;  // "linear_ce:chunk_tokens=64"
  double relative_l2 = 0;      // of "grad_weight"
  double ratio = 0;            // of the check "grad_weight"
};

/// Returns rows by case and implementation (without options) in the order of the run, then by
/// chunks; only groups with at least three different numbers of chunks.
std::vector<ChunkErrorRow> weight_error_by_chunks(const RunRecord& run);

}  // namespace lossgrid
