// SPDX-License-Identifier: Apache-2.0
// FilePart: the part of a file of results that belongs to one rank, in a file of the whole batch or
// in a file of this rank only.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/loss/loss_implementation.h"

namespace lossgrid {

/// Position of the part in the file.
struct FilePart {
  std::int64_t tokens = 0;        // rows of the file, T or T_c
  std::int64_t hidden_rows = 0;   // rows of the file's gradient of hidden states
  std::int64_t vocab = 0;         // V or V_t
  std::int64_t first_column = 0;  // first column of the rank's shard
  std::int64_t columns = 0;       // columns of the shard that the file has
  bool has_weight = true;         // true on one CP rank, as the gradient is summed over CP
  // Rows of the file by row of the rank [T_c]: `about` with the outputs of the predicted token (-1:
  // no token), `rows` with the row itself (-1: a pad). `hidden` [hidden_rows] is like `rows`, for
  // hidden states.
  std::vector<std::int64_t> about;
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> hidden;
};

/// Returns the part in a file of the rank: the whole file, with rows in the order of the rank.
FilePart part_of_rank_file(const LossProblem& problem);

/// Returns the part in a file of the whole batch.
FilePart part_of_whole_file(const LossProblem& problem, int tp_rank, int cp_rank);

}  // namespace lossgrid
