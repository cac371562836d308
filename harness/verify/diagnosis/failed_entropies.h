// SPDX-License-Identifier: Apache-2.0
// `FailedEntropies`: returned entropies of a rank that are beyond their bounds, and the number of
// them that a known mistake would explain.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "harness/verify/checks/row_places.h"
#include "harness/verify/diagnosis/mistake_tally.h"
#include "harness/verify/truth/truth.h"

namespace lossgrid {

/// Known mistakes, in the order of FailedEntropies::mistakes: ends of a sentence after "are what
/// they would be ".
inline constexpr std::array<std::string_view, 7> kEntropyMistakes{{
    "if the entropy of these rows were never written, or masked away: 0?",
    "if the sum of p ln p were that of the own vocabulary shard: its all-reduce over TP is "
    "missing?",
    "of the softmax of the own vocabulary shard alone: no all-reduce over TP?",
    "with the other sign: sum p ln p?",
    "for another row: rows are in another order?",
    "at temperature 1: logits are not divided by the temperature?",
    "in bits: a logarithm to the base 2?",
}};

struct FailedEntropies {
  std::int64_t count = 0;
  std::array<MistakeTally, kEntropyMistakes.size()> mistakes{};

  void add(const FailedEntropies& other);
};

/// Returns the failed entropies of the rows at `places` on a TP rank; `got` is by place. Mistakes
/// are tried on the first 64 failed rows.
FailedEntropies look_at_entropies(const Problem& problem, const Truth& truth,
                                  std::span<const RowPlace> places, int tp, int tp_rank,
                                  std::span<const float> got, int serial_adds);

}  // namespace lossgrid
