// SPDX-License-Identifier: Apache-2.0
// Alternatives of a batch by kind, simpler alternatives first.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "harness/verify/diagnosis/alternative.h"
#include "harness/verify/diagnosis/row_home.h"

namespace lossgrid {

/// A batch and everything that its alternatives depend on.
struct AlternativeInput {
  const Problem& problem;
  std::shared_ptr<const Objective> objective;
  std::vector<RowHome> homes;  // [T]
  int tp = 1;                // ranks that each hold the gradient of all hidden states of their rows
  bool has_upstream = true;  // the trial returns log-probabilities, which have upstream gradients
  // Makes an objective in the same way as the objective of the trial. May throw bad_input.
  std::function<std::shared_ptr<const Objective>(const ObjectiveSpec& spec)> make;
};

/// Returns alternatives with another value of one option of the objective.
std::vector<Alternative> other_options(const AlternativeInput& input);

/// Returns alternatives without a term of the objective. If the term is detached, only the gradient
/// fits.
std::vector<Alternative> left_out_terms(const AlternativeInput& input);

/// Returns alternatives with other transforms of logits, masks and labels.
std::vector<Alternative> other_rows(const AlternativeInput& input);

/// Returns alternatives with other upstream gradients, sums over some ranks, or means of parts.
std::vector<Alternative> other_sums(const AlternativeInput& input);

}  // namespace lossgrid
