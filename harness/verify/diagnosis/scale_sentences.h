// SPDX-License-Identifier: Apache-2.0
// Sentences of a diagnosis about losses and gradients that are a multiple of their truth: as a
// whole, by rank or microbatch, or in their wrong elements.
#pragma once

#include <string>
#include <vector>

#include "harness/verify/diagnosis/diagnosis.h"

namespace lossgrid {

/// Appends the sentences to `out`. The other arguments are those of explain().
void add_scales(const FailureFacts& facts, const FailureFacts* second,
                const DeclaredWords& declared, std::vector<std::string>& out);

}  // namespace lossgrid
