// SPDX-License-Identifier: Apache-2.0
// `PackedBatch`: sequences concatenated, with the boundaries that a loss is given. Unsharded; each
// rank holds the whole of it (it is small), and only logits are sharded.
//
// Alignment: every per-token array is indexed by the token it is *about*; row t of the logits
// predicts token t + 1 of the same sequence (loss-semantics of NeMo-RL, `prepare_loss_input`), and
// row t of scores is about token t.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "harness/comm/process_grid.h"
#include "harness/problem/batch/token_inputs.h"
#include "harness/problem/case/case_spec.h"

namespace lossgrid {

/// One array for each TokenInput, all of the same length or empty where nothing needs it.
using TokenInputs = std::array<std::vector<float>, kTokenInputs>;

/// Place of a pack among those that make up the global batch.
struct MicrobatchPlace {
  int count = 1;       // packs of one dp rank, the same on all of them
  int dp = 1;          // dp ranks
  bool dummy = false;  // true if nothing in it counts: it keeps the ranks' schedules equal
  // Largest number of sequences in a pack of the dp rank, by which a schedule with packs of one
  // size sizes its arrays; 0: as many as this pack has.
  std::int64_t slots = 0;
  int index = 0;    // index of this pack, in [0, count)
  int grid_cp = 0;  // cp of a dynamic grid, whose packs have other CP sizes; 0: of a static one
};

/// Batch as implementations are given it.
struct PackedBatch {
  // [S + 1] offsets of the sequences in the token arrays below.
  std::vector<std::int64_t> cu_seqlens;
  // [S + 1] offsets in the padded pack, whose rows the logits have. P_i >= L_i for every sequence;
  // P_i is a multiple of what the grid needs.
  std::vector<std::int64_t> cu_seqlens_padded;
  CpLayout cp_layout = CpLayout::zigzag;  // of the rows of the padded pack

  int ahead = 1;  // row t is about token t + ahead of its sequence (tokens_ahead)

  std::vector<std::int32_t> input_ids;    // [cu_seqlens.back()]
  std::vector<std::uint8_t> token_mask;   // [cu_seqlens.back()], 1: a target to train on
  std::vector<std::uint8_t> sample_mask;  // [S]
  Denominators denominators;

  TokenInputs inputs;          // about each token: [cu_seqlens.back()], or empty when not needed
  std::vector<float> rewards;  // [S], or empty when not needed
  // [S] valid tokens that the group of the sequence has in the global batch, or empty when not
  // needed: other sequences of it may be in other packs.
  std::vector<std::int64_t> group_tokens;
  double input_sum = 0;  // Objective::input_sum over the global batch, or 0 when not needed
  std::vector<float> temperatures;  // [S], or empty unless LogitTransform::by_sequence
  // [S] true lengths, which a trainer knows even where cu_seqlens holds padded lengths.
  std::vector<std::int64_t> input_lengths;
  MicrobatchPlace microbatch;

  std::int64_t sequences() const { return static_cast<std::int64_t>(cu_seqlens.size()) - 1; }
  std::int64_t tokens() const { return cu_seqlens.back(); }
  std::int64_t padded_tokens() const { return cu_seqlens_padded.back(); }
  std::int64_t length(std::int64_t i) const { return cu_seqlens[i + 1] - cu_seqlens[i]; }
  std::int64_t padded_length(std::int64_t i) const {
    return cu_seqlens_padded[i + 1] - cu_seqlens_padded[i];
  }
};

/// Places of the true tokens of a problem laid out for one grid.
struct PackedLayout {
  std::vector<std::int64_t> lengths;    // true lengths L_i
  std::vector<std::int64_t> cu;         // [S + 1] of true lengths
  std::vector<std::int64_t> cu_padded;  // [S + 1]
  std::int64_t padded_tokens() const { return cu_padded.back(); }
};

/// Returns the layout with P_i = L_i rounded up to a multiple of m = lcm(pad_multiple, c), the last
/// sequence stretched until the pack is a multiple of lcm(bin_multiple, m). c is the number of
/// chunks (cp_chunks) x (tp with SP). Layouts ulysses and zigzag_row, which pad the end of the pack
/// alone, have m = pad_multiple and packs of a multiple of lcm(bin_multiple, m, c). Throws
/// bad_input where a sum overflows.
PackedLayout make_layout(const std::vector<std::int64_t>& lengths, std::int64_t pad_multiple,
                         std::int64_t bin_multiple, const Grid& grid);

}  // namespace lossgrid
