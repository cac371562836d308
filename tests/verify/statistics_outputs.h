// SPDX-License-Identifier: Apache-2.0
// Outputs by token with the statistics of rows.
#pragma once

#include <span>

#include "harness/loss/loss_implementation.h"

namespace lossgrid {

/// Returns the outputs of four columns: log-probabilities, entropies, smallest and largest logits.
template <typename Columns>
TokenOutputs statistics_outputs(Columns& columns) {
  TokenOutputs outputs{columns[0]};
  outputs.terms[RowTerm::entropy] = columns[1];
  outputs.terms[RowTerm::vocab_min] = columns[2];
  outputs.terms[RowTerm::vocab_max] = columns[3];
  return outputs;
}

}  // namespace lossgrid
