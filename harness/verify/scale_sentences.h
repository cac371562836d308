// SPDX-License-Identifier: Apache-2.0
// Sentences of a diagnosis about losses and gradients that are a multiple of their truth: as a
// whole, by rank or microbatch, or where they are wrong.
#pragma once

#include <string>
#include <vector>

#include "harness/verify/diagnosis.h"

namespace lossgrid {

/// As explain(): appends to `out`.
void add_scales(const FailureFacts& facts, bool external, std::vector<std::string>& out);

}  // namespace lossgrid
