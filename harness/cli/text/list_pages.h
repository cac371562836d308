// SPDX-License-Identifier: Apache-2.0
// Tables of documentation pages, from the lists of the program.
#pragma once

#include <string>

namespace lossgrid {

/// The following functions return Markdown: the table of invariants in docs/verification.md, and
/// the table of layouts in docs/concepts.md.
std::string format_invariants_page();
std::string format_layouts_page();

}  // namespace lossgrid
