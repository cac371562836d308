// SPDX-License-Identifier: Apache-2.0
// A packed batch: sequences concatenated, with the boundaries that a loss is given. Unsharded; each
// rank holds the whole of it (it is small), and only logits are sharded.
//
// Alignment: every per-token array is indexed by the token it is *about*; row t of the logits
// predicts token t + 1 of the same sequence (loss-semantics of NeMo-RL, `prepare_loss_input`).
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

/// Where a pack stands among those that make up the global batch.
struct MicrobatchPlace {
  int count = 1;       // packs that one dp rank goes through, the same on all of them
  int dp = 1;          // dp ranks
  bool dummy = false;  // nothing in it counts: it keeps the ranks' schedules equal
  // The most sequences that a pack of the dp rank has: what a schedule with packs of one size sizes
  // its arrays by. 0: as many as this one.
  std::int64_t slots = 0;
  int index = 0;  // of this pack, among `count`
};

struct PackedBatch {
  // [S + 1] offsets of the sequences in the token arrays below.
  std::vector<std::int64_t> cu_seqlens;
  // [S + 1] offsets in the padded pack, whose rows the logits have. P_i >= L_i for every sequence;
  // P_i is a multiple of what the grid needs.
  std::vector<std::int64_t> cu_seqlens_padded;

  std::vector<std::int32_t> input_ids;    // [cu_seqlens.back()]
  std::vector<std::uint8_t> token_mask;   // [cu_seqlens.back()], 1: a target to train on
  std::vector<std::uint8_t> sample_mask;  // [S]
  Denominators denominators;

  TokenInputs inputs;          // about each token: [cu_seqlens.back()], or empty when not needed
  std::vector<float> rewards;  // [S], or empty when not needed
  // [S] true lengths: what a trainer knows of its data even where cu_seqlens holds padded lengths.
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

/// Where the true tokens are: for a problem (true lengths) laid out for one grid.
struct PackedLayout {
  std::vector<std::int64_t> lengths;    // true lengths L_i
  std::vector<std::int64_t> cu;         // [S + 1] of true lengths
  std::vector<std::int64_t> cu_padded;  // [S + 1]
  std::int64_t padded_tokens() const { return cu_padded.back(); }
};

/// P_i = L_i rounded up to lcm(pad_multiple, (2 cp if cp > 1) x (tp with SP)); the last sequence is
/// then stretched until the pack is a multiple of lcm(bin_multiple, that). Sums are checked for
/// overflow.
PackedLayout make_layout(const std::vector<std::int64_t>& lengths, std::int64_t pad_multiple,
                         std::int64_t bin_multiple, const Grid& grid);

}  // namespace lossgrid
