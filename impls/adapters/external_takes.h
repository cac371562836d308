// SPDX-License-Identifier: Apache-2.0
// not_taken: the rule that external functions get options, inputs and layouts only if they declare
// them (`takes=` of Python, `takes` of a plugin), and losses only if they return or take all
// numbers of the loss.
#pragma once

#include <optional>

#include "harness/core/skip_reason.h"
#include "harness/external/declaration.h"
#include "harness/loss/loss_implementation.h"

namespace lossgrid {

/// Returns the reason why a function does not get a problem; nullopt if it does.
std::optional<SkipReason> not_taken(const ExternalDeclaration& declaration,
                                    const LossProblem& problem);

}  // namespace lossgrid
