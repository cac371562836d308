// SPDX-License-Identifier: Apache-2.0
// The right answer to "who holds what": zigzag CP split of a padded pack, vocab split over TP, and
// the shift that makes a row's target. The harness lays out logits with it; implementations may use
// it or do it their own way.
//
// Zigzag (per sequence): P_i is cut in 2 cp chunks of h = P_i / (2 cp); cp rank r holds chunk r,
// then chunk 2 cp - 1 - r. (NeMo-RL `_get_tokens_on_this_cp_rank`; TransformerEngine
// `thd_partition_src_index`.) cp = 1: the whole sequence.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "harness/comm/process_grid.h"
#include "harness/problem/batch/packed_batch.h"
#include "harness/problem/batch/vocab_shard.h"

namespace lossgrid {

/// [T_c] padded position of every local row of `cp_rank`, local rows in pack order.
/// Requires cu_padded[i] divisible by 2 cp (cp > 1); throws bad_input otherwise.
std::vector<std::int64_t> cp_rows(std::span<const std::int64_t> cu_padded, int cp, int cp_rank);

VocabShard vocab_shard(std::int64_t vocab, int tp, int tp_rank);

/// 0, V - 1 and the first and last ids of every shard for tp = 2, 4 and 8; sorted. The ids where an
/// off-by-one in the bounds of a shard shows.
std::vector<std::int32_t> shard_edge_ids(std::int64_t vocab);

/// What rows of the padded pack predict and what is known about the token that they predict.
struct ShiftedBatch {
  std::vector<std::int32_t> targets;   // [rows] id of the next token of the sequence, -1 for none
  std::vector<std::uint8_t> valid;     // [rows] token mask of that token and sample mask
  std::vector<std::uint8_t> real;      // [rows] 1: the row holds a true token, 0: a pad
  std::vector<std::int32_t> sequence;  // [rows]
  TokenInputs inputs;                  // [rows] about the predicted token; 0 where there is none

  std::size_t rows() const { return targets.size(); }
  /// The rows at `positions`, in their order.
  ShiftedBatch pick(std::span<const std::int64_t> positions) const;
  /// Rows of `other` behind these.
  void append(const ShiftedBatch& other);
};

/// Row t of sequence i predicts token t + 1 while t + 1 < L_i (L_i of batch.cu_seqlens); rows after
/// that predict nothing (-1, not valid). Row t is real while t < input_lengths[i]; of a
/// dummy no row is.
ShiftedBatch shift_targets(const PackedBatch& batch);

}  // namespace lossgrid
