// SPDX-License-Identifier: Apache-2.0
// `SamplingMask`: the ids of every row that a sampler could have drawn, its kept set. The softmax
// of a row is over these alone, as if the transformed logits of all others were -inf; the set is
// constant, it has no gradient. It is given with a batch, or made of the logits as samplers make
// it: top k, then top p.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "harness/problem/values/logits_source.h"

namespace lossgrid {

/// Ids of a word of a mask.
inline constexpr std::int64_t kMaskWordBits = 64;

/// Returns the words that hold the bits of `ids` ids.
constexpr std::int64_t mask_words(std::int64_t ids) {
  return (ids + kMaskWordBits - 1) / kMaskWordBits;
}

/// Bits [rows, V], one for an id; a row begins at a word of its own.
class SamplingMask {
 public:
  /// Makes a mask that keeps nothing.
  SamplingMask(std::int64_t rows, std::int64_t vocab);

  void keep(std::int64_t row, std::int64_t id);
  bool keeps(std::int64_t row, std::int64_t id) const;
  /// True if the row keeps an id.
  bool keeps_any(std::int64_t row) const;
  /// Sets bit k of `out` to that of id begin + k, for k < count, and all other bits to 1.
  void read(std::int64_t row, std::int64_t begin, std::int64_t count,
            std::span<std::uint64_t> out) const;

  std::int64_t rows() const { return rows_; }
  std::int64_t vocab() const { return vocab_; }

 private:
  std::size_t word_of(std::int64_t row, std::int64_t id) const;

  std::int64_t rows_;
  std::int64_t vocab_;
  std::vector<std::uint64_t> words_;
};

/// The filters of a sampler, in the order in which they are applied (NeMo-RL, vLLM).
struct SamplingFilter {
  std::int64_t top_k = 0;  // 0: all ids
  double top_p = 1;        // 1: all ids

  bool is_any() const { return top_k > 0 || top_p < 1; }
};

/// Sets kept[v] to 1 for the ids that the filters keep of a row with transformed logits z [V]:
///   - top_k: z >= the k-th largest, ties with it all kept;
///   - top_p: p = softmax of these, in ascending order; kept while the sum of p from the smallest
///     on is > 1 - top_p. The largest is always kept; of equal ones the lower id is the larger.
void filter_row(std::span<const double> z, const SamplingFilter& filter,
                std::span<std::uint8_t> kept);

/// Returns the kept sets of rows [0, rows) of `logits`, in float64.
std::shared_ptr<const SamplingMask> make_sampling_mask(const LogitsSource& logits,
                                                       std::int64_t rows, std::int64_t vocab,
                                                       const SamplingFilter& filter);

/// Returns `source` with -inf at all ids that the mask does not keep.
std::shared_ptr<const LogitsSource> make_masked_logits(std::shared_ptr<const LogitsSource> source,
                                                       std::shared_ptr<const SamplingMask> mask);

}  // namespace lossgrid
