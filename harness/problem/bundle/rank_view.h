// SPDX-License-Identifier: Apache-2.0
// Rank view: shard of a batch on one rank of a grid, in a safetensors file beside the bundle, for
// programs that do not shard and pad themselves. docs/bundle-format.md describes the format.
#pragma once

#include <string>

#include "harness/problem/batch/problem.h"

namespace lossgrid {

/// Returns the path of a rank's view: "B.safetensors" -> "B.rank3.safetensors".
std::string rank_view_path(const std::string& bundle, int rank);

/// Writes the view of `rank` of a grid of one dp rank and one pipeline stage: its shard of the
/// logits, or of hidden states and weight, and for each row the inputs of the predicted token.
/// Nothing is poisoned: pads are 0, padding columns of logits -inf. Throws io; bad_input for a
/// problem that the format cannot express, or a grid that the batch does not fit.
void write_rank_view(const std::string& path, const Problem& problem, const Grid& grid, int rank);

}  // namespace lossgrid
