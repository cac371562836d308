// SPDX-License-Identifier: Apache-2.0
// not_taken: the rule by which functions from outside are given options, inputs and layouts only if
// they declare that they take them (`takes=` of Python, `takes` of a plugin), and losses only if
// all numbers that these are made of are returned or taken.
#pragma once

#include <optional>

#include "harness/core/skip_reason.h"
#include "harness/external/declaration.h"
#include "harness/loss/loss_implementation.h"

namespace lossgrid {

/// Returns the reason for which a function is not given a problem; nullopt if it is.
std::optional<SkipReason> not_taken(const ExternalDeclaration& declaration,
                                    const LossProblem& problem);

}  // namespace lossgrid
