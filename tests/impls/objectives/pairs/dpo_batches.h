// SPDX-License-Identifier: Apache-2.0
// Batches of preference pairs for the tests of `dpo`: one whose numbers can be worked out by hand,
// and random ones.
#pragma once

#include "objective_batch.h"

namespace lossgrid {

inline constexpr auto kReference = static_cast<std::size_t>(TokenInput::reference_policy_logprobs);

/// Returns two pairs: the first one's chosen sequence has valid rows 0 and 2, its rejected one row
/// 5, and the pair's rewards are 0.75 and -0.5; of the second pair, rows 8 and 10, they are -1 and
/// 0.5. There are four pairs in the global batch.
inline ObjectiveBatch small_pairs() {
  ObjectiveBatchShape shape;
  shape.lengths = {4, 4, 2, 2};
  ObjectiveBatch data = make_objective_batch(shape);
  data.batch.token_mask = {1, 1, 0, 1, 0, 0, 1, 0, 0, 1, 0, 1};
  data.batch.denominators = {20, 8, 0};
  data.logprobs.assign(12, kPoison);
  data.batch.inputs[kReference].assign(12, kPoison);
  const auto set = [&](std::int64_t row, float logprob, float reference) {
    data.logprobs[row] = logprob;
    data.batch.inputs[kReference][row + 1] = reference;
  };
  set(0, -1, -1.5f);
  set(2, -2, -2.25f);
  set(5, -1, -0.5f);
  set(8, -3, -2);
  set(10, -0.5f, -1);
  return data;
}

/// Returns four pairs with empty sequences, ones without a target and, by the seed, a pair that is
/// not trained on.
inline ObjectiveBatchShape random_pairs(std::uint64_t seed) {
  ObjectiveBatchShape shape;
  shape.lengths = {9, 1, 6, 5, 0, 12, 8, 7};
  shape.seed = seed;
  shape.part_of_more = seed % 2 == 0;
  shape.drift = seed % 4 == 3 ? Drift::far : Drift::near;
  if (seed % 3 == 0) shape.sample_mask = {1, 1, 0, 0, 1, 1, 1, 1};
  return shape;
}

}  // namespace lossgrid
