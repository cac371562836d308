// SPDX-License-Identifier: Apache-2.0
// FilePart: the part of a file of results that belongs to one rank, in a file of the whole batch or
// in one of the rank alone.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/loss/loss_implementation.h"

namespace lossgrid {

/// Position of the part in the file.
struct FilePart {
  std::int64_t tokens = 0;        // rows of the file, T or T_c
  std::int64_t hidden_rows = 0;   // of its gradient of hidden states
  std::int64_t vocab = 0;         // V or V_t
  std::int64_t first_column = 0;  // of the rank's shard
  std::int64_t columns = 0;       // of it that the file has
  bool has_weight = true;         // the gradient of the shard is the sum over CP ranks
  // By row of the rank [T_c], rows of the file: with the outputs of the token that it predicts (-1:
  // none), and of the row itself (-1: a pad). `hidden` [hidden_rows]: the latter for hidden states.
  std::vector<std::int64_t> about;
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> hidden;
};

/// Returns the part in a file of the rank: all of it, rows in the order of the rank.
FilePart part_of_rank_file(const LossProblem& problem);

/// Returns the part in a file of the whole batch.
FilePart part_of_whole_file(const LossProblem& problem, int tp_rank, int cp_rank);

}  // namespace lossgrid
