// SPDX-License-Identifier: Apache-2.0
// The table of docs/verification.md: the invariants of a trial, from their list.
#pragma once

#include <string>

namespace lossgrid {

/// Returns Markdown: a table.
std::string format_invariants_page();

}  // namespace lossgrid
