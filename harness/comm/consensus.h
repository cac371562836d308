// SPDX-License-Identifier: Apache-2.0
// Exchange of texts between ranks, to agree on a decision or an error. Every rank calls these
// functions, in the same order, also with an empty text.
#pragma once

#include <string>
#include <vector>

#include "harness/comm/communicator.h"

namespace lossgrid {

/// Returns the texts of all ranks, by rank, on every rank.
std::vector<std::string> gather_texts(Communicator& comm, const std::string& text);

/// Throws bad_input on all ranks unless they hold the same text, with `what` and the first rank
/// that differs from rank 0.
void require_same_text(Communicator& comm, const std::string& text, const std::string& what);

}  // namespace lossgrid
