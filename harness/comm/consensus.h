// SPDX-License-Identifier: Apache-2.0
// How ranks come to one opinion. Every rank calls these, in the same order, also when it has
// nothing to say.
#pragma once

#include <string>
#include <vector>

#include "harness/comm/communicator.h"

namespace lossgrid {

/// Every rank's text, on every rank, by rank.
std::vector<std::string> gather_texts(Communicator& comm, const std::string& text);

/// Throws bad_input on all ranks when they do not hold the same text, naming `what` and the first
/// rank that differs from rank 0.
void require_same_text(Communicator& comm, const std::string& text, const std::string& what);

}  // namespace lossgrid
