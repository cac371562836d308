// SPDX-License-Identifier: Apache-2.0
#include "impls/adapters/file_part.h"

#include <algorithm>
#include <numeric>

namespace lossgrid {

FilePart part_of_rank_file(const LossProblem& problem) {
  FilePart part;
  part.tokens = problem.local_rows();
  part.hidden_rows = problem.hidden_rows();
  part.vocab = part.columns = problem.width();
  part.rows.resize(static_cast<std::size_t>(part.tokens));
  std::iota(part.rows.begin(), part.rows.end(), 0);
  part.about = part.rows;
  part.hidden.assign(part.rows.begin(), part.rows.begin() + part.hidden_rows);
  return part;
}

FilePart part_of_whole_file(const LossProblem& problem, int tp_rank, int cp_rank) {
  const PackedBatch& batch = problem.batch;
  const VocabShard shard = vocab_shard(problem.vocab, problem.grid.tp, tp_rank);
  FilePart part;
  part.vocab = problem.vocab;
  part.first_column = shard.begin;
  part.columns = shard.valid();
  part.has_weight = cp_rank == 0;
  std::vector<std::int64_t> first{0};  // [S + 1] first token of each sequence in the file
  for (const std::int64_t length : batch.input_lengths) first.push_back(first.back() + length);
  part.tokens = part.hidden_rows = first.back();
  for (const std::int64_t position : cp_rows(batch, problem.grid.cp, cp_rank)) {
    const auto& cu = batch.cu_seqlens_padded;
    const std::int64_t i = std::upper_bound(cu.begin(), cu.end(), position) - cu.begin() - 1;
    const std::int64_t offset = position - cu[static_cast<std::size_t>(i)];
    const std::int64_t length = batch.input_lengths[static_cast<std::size_t>(i)];
    const std::int64_t row = first[static_cast<std::size_t>(i)] + offset;
    part.rows.push_back(offset < length ? row : -1);
    part.about.push_back(offset + batch.ahead < length ? row + batch.ahead : -1);
  }
  const std::int64_t begin = problem.grid.sp ? problem.hidden_rows() * tp_rank : 0;
  part.hidden.assign(part.rows.begin() + begin, part.rows.begin() + begin + problem.hidden_rows());
  return part;
}

}  // namespace lossgrid
