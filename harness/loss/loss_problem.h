// SPDX-License-Identifier: Apache-2.0
// The task that a problem is for an implementation, and the reasons for which it takes none.
#pragma once

#include <optional>

#include "harness/core/skip_reason.h"
#include "harness/device/backend.h"
#include "harness/loss/loss_implementation.h"
#include "harness/problem/batch/problem.h"
#include "harness/problem/case/scale_factor.h"

namespace lossgrid {

/// Returns the task of an implementation for `batch`, the pack of `problem` on `grid`. All
/// arguments but `grid` outlive the result.
LossProblem make_loss_problem(const Problem& problem, const PackedBatch& batch, const Grid& grid,
                              const Objective& objective, Backend backend = Backend::cpu);

/// Returns a reason when an implementation takes no problems that start from hidden states, or from
/// logits.
std::optional<SkipReason> inputs_mismatch(const LossImplementation& implementation,
                                          bool from_hidden);

/// Returns a reason when a problem cannot be padded as an implementation needs on this grid.
std::optional<SkipReason> padding_misfit(const Problem& problem, const Padding& padding,
                                         const Grid& grid);

/// Returns the first reason of these two.
std::optional<SkipReason> not_applicable(const LossImplementation& implementation,
                                         const Problem& problem, const Grid& grid);

/// Returns the sizes that the factors of a framework depend on.
ScaleSizes scale_sizes(const Problem& problem, const Grid& grid);

}  // namespace lossgrid
