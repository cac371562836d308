// SPDX-License-Identifier: Apache-2.0
// A packed batch: sequences concatenated, with the boundaries that a loss is given. Unsharded; each
// rank holds the whole of it (it is small), and only logits are sharded.
//
// Alignment: every per-token array is indexed by the token it is *about*; row t of the logits
// predicts token t + 1 of the same sequence (loss-semantics of NeMo-RL, `prepare_loss_input`).
#pragma once

#include <cstdint>
#include <vector>

#include "harness/problem/case_spec.h"

namespace lossgrid {

/// Exact denominators of the *global* batch (all dp, cp and microbatches).
struct Denominators {
  std::int64_t valid_tokens = 0;     // targets with token mask and sample mask
  std::int64_t valid_sequences = 0;  // sum of the sample mask
  friend bool operator==(const Denominators&, const Denominators&) = default;
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

/// P_i = L_i rounded up to lcm(pad_multiple, 2 cp if cp > 1); the last sequence is then stretched
/// until the pack is a multiple of lcm(bin_multiple, that). Sums are checked for overflow.
PackedLayout make_layout(const std::vector<std::int64_t>& lengths, std::int64_t pad_multiple,
                         std::int64_t bin_multiple, int cp);

}  // namespace lossgrid
