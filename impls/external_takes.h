// SPDX-License-Identifier: Apache-2.0
// What a function from outside is given only if it declares that it takes it (`takes=` of Python).
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
