// SPDX-License-Identifier: Apache-2.0
// A rank view: what one rank of a grid holds of a batch, in a safetensors file beside the bundle,
// for programs that do not shard and pad themselves. See the format in README.md.
#pragma once

#include <string>

#include "harness/problem/batch/problem.h"

namespace lossgrid {

/// "B.safetensors" -> "B.rank3.safetensors".
std::string rank_view_path(const std::string& bundle, int rank);

/// Writes the view of `rank` of a grid of one dp rank and one pipeline stage: its shard of the
/// logits, or of hidden states and weight, and by row what a loss reads about the predicted token.
/// Nothing is poisoned: pads are 0, padding columns of logits -inf. Throws io; bad_input for what a
/// bundle cannot say, and for a grid that the batch does not fit.
void write_rank_view(const std::string& path, const Problem& problem, const Grid& grid, int rank);

}  // namespace lossgrid
