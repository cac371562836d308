// SPDX-License-Identifier: Apache-2.0
// Internal to the truth of `clipped_pg`: its importance weights w = exp(p - q) of previous over
// generation, which have no gradient and so stand beside the tape.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "harness/loss/enclosure.h"
#include "harness/loss/tape.h"
#include "impls/objectives/clipped_pg/clipped_pg_options.h"
#include "impls/objectives/clipped_pg/clipped_pg_truth_numbers.h"

namespace lossgrid {

/// The log weight of a token whose generation log-probability is not finite: its weight is 0.
inline constexpr double kNoLogWeight = std::numeric_limits<double>::infinity();

/// The weights of tokens, under sequence-level ratios also those of the sequences that count, and
/// for tokens or sequences, whichever the bounds apply to, 1 if outside of them, else 0.
struct TrueWeights {
  ByToken<Enclosure> tokens;
  std::vector<Enclosure> sequences;
  std::vector<Enclosure> out_of_bounds;
  bool straddles = false;  // a weight that may be on either side of a bound is dropped beyond it
};

/// `log_weights`: p - q of valid tokens. `keeps`: 0 of those that are rejected one by one, whose
/// weights are out of sums over sequences under token_masks_first. `side`: of the bounds, where
/// weights may be on either; the first is inside. Adds the branches taken to `branches`:
/// is_weight_... of tokens, sequence_... of sequences that count.
TrueWeights true_weights(const ClippedPgOptions& options, std::span<const std::uint8_t> sample_mask,
                         const ByToken<Enclosure>& log_weights, const ByToken<Enclosure>& keeps,
                         Side side, std::map<std::string, std::int64_t>& branches);

}  // namespace lossgrid
