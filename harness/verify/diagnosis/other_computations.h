// SPDX-License-Identifier: Apache-2.0
// The alternatives of a batch, by kind; the simpler ones come first.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "harness/verify/diagnosis/alternative.h"
#include "harness/verify/diagnosis/row_home.h"

namespace lossgrid {

/// A batch and all that its alternatives depend on.
struct AlternativeInput {
  const Problem& problem;
  std::shared_ptr<const Objective> objective;
  std::vector<RowHome> homes;  // [T]
  int tp = 1;                // ranks that each have the gradient of all hidden states of their rows
  bool has_upstream = true;  // log-probabilities are returned, which have upstream gradients
  // Makes an objective as that of the trial is made. May throw bad_input.
  std::function<std::shared_ptr<const Objective>(const ObjectiveSpec& spec)> make;
};

/// Returns those that state another value of one option of the objective.
std::vector<Alternative> other_options(const AlternativeInput& input);

/// Returns those without a term of the objective: a gradient alone fits where the term is detached.
std::vector<Alternative> left_out_terms(const AlternativeInput& input);

/// Returns those of other transforms of logits, masks and labels.
std::vector<Alternative> other_rows(const AlternativeInput& input);

/// Returns those of other upstream gradients, and of sums over some ranks or means of parts.
std::vector<Alternative> other_sums(const AlternativeInput& input);

}  // namespace lossgrid
