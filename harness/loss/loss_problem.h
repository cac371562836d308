// SPDX-License-Identifier: Apache-2.0
// LossProblem of a problem, and reasons why an implementation cannot take it.
#pragma once

#include <optional>

#include "harness/core/skip_reason.h"
#include "harness/device/backend.h"
#include "harness/loss/loss_implementation.h"
#include "harness/problem/batch/problem.h"
#include "harness/problem/case/scale_factor.h"

namespace lossgrid {

/// Returns the LossProblem for `batch`, the pack of `problem` on `grid`. All arguments except
/// `grid` must outlive the result.
LossProblem make_loss_problem(const Problem& problem, const PackedBatch& batch, const Grid& grid,
                              const Objective& objective, Backend backend = Backend::cpu);

/// Returns a reason if an implementation takes no problems from hidden states, or none from logits.
std::optional<SkipReason> inputs_mismatch(const LossImplementation& implementation,
                                          bool from_hidden);

/// Returns a reason if a problem cannot have the padding that an implementation needs on this grid.
std::optional<SkipReason> padding_misfit(const Problem& problem, const Padding& padding,
                                         const Grid& grid);

/// Returns the first reason of inputs_mismatch and padding_misfit.
std::optional<SkipReason> not_applicable(const LossImplementation& implementation,
                                         const Problem& problem, const Grid& grid);

/// Returns the sizes on which the factors of a framework depend.
ScaleSizes scale_sizes(const Problem& problem, const Grid& grid);

}  // namespace lossgrid
