// SPDX-License-Identifier: Apache-2.0
// Right division of a batch over ranks: CP split of a padded pack, and the shift that makes a row's
// target. The harness lays out logits with it; implementations may use it
// or do it their own way.
// Layouts over CP: harness/comm/cp_layout.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "harness/comm/process_grid.h"
#include "harness/problem/batch/packed_batch.h"
#include "harness/problem/values/vocab_shards.h"

namespace lossgrid {

/// Returns the number of chunks that a sequence, or a pack, is cut in.
std::int64_t cp_chunks(CpLayout layout, int cp);

/// Returns the CP rank that has the chunk at `place` of a round, and the place of the chunk of a
/// rank: turning exchanges both.
int cp_turn(CpLayout layout, int cp, std::int64_t round, int place);

/// Returns [T_c] the padded position of every local row of `cp_rank`, in its order. Throws
/// bad_input unless the chunks are equal.
std::vector<std::int64_t> cp_rows(std::span<const std::int64_t> cu_padded, CpLayout layout, int cp,
                                  int cp_rank);
std::vector<std::int64_t> cp_rows(const PackedBatch& batch, int cp, int cp_rank);
std::vector<std::int64_t> cp_rows(std::span<const std::int64_t> cu_padded, const Grid& grid,
                                  int cp_rank);

/// Targets of rows of the padded pack, and the inputs about the tokens that these rows predict.
struct ShiftedBatch {
  std::vector<std::int32_t> targets;   // [rows] id of the next token of the sequence, -1 for none
  std::vector<std::uint8_t> valid;     // [rows] token mask of that token and sample mask
  std::vector<std::uint8_t> real;      // [rows] 1 for a true token, 0 for a pad
  std::vector<std::int32_t> sequence;  // [rows]
  std::vector<std::int32_t> ordinal;   // [rows] valid rows of the sequence before this one
  std::vector<std::int32_t> place;     // [rows] row of the padded pack
  TokenInputs inputs;                  // [rows] about the predicted token; 0 where there is none

  std::size_t rows() const { return targets.size(); }
  /// Returns the rows at `positions`, in their order.
  ShiftedBatch gather(std::span<const std::int64_t> positions) const;
  /// Adds the rows of `other` behind these.
  void append(const ShiftedBatch& other);
};

/// Returns the targets of all rows. Row t of sequence i predicts token t + 1 while t + 1 < L_i (L_i
/// of batch.cu_seqlens); rows after that predict nothing (-1, not valid). A row of scores is about
/// its own token instead. Row t is real while
/// t < input_lengths[i]; no row of a dummy is.
ShiftedBatch shift_targets(const PackedBatch& batch);

}  // namespace lossgrid
