// SPDX-License-Identifier: Apache-2.0
// `VocabShard`: columns of the vocabulary on one TP rank. Plain data only: nvcc compiles this
// header.
#pragma once

#include <cstdint>

namespace lossgrid {

/// Columns [begin, end) of the vocabulary, in a shard `width` columns wide. Columns beyond
/// `end - begin` are padding: they count as -inf and get no gradient.
struct VocabShard {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t width = 0;  // ceil(V / tp), the same on all ranks
  constexpr std::int64_t valid() const { return end - begin; }
  constexpr bool owns(std::int64_t id) const { return id >= begin && id < end; }
};

/// Returns the TP ranks that a vocabulary is cut over: a head of one number a row is on all of
/// them.
constexpr int vocab_ranks(std::int64_t vocab, int tp) {
  return vocab == 1 ? 1 : tp;
}

/// True for the ranks whose shard is a copy of that of TP rank 0.
constexpr bool has_vocab_copy(std::int64_t vocab, int tp_rank) {
  return vocab == 1 && tp_rank != 0;
}

}  // namespace lossgrid
