// SPDX-License-Identifier: Apache-2.0
// Catalogue of mutants and controls as tables in Markdown: the generated part of docs/mutants.md.
#pragma once

#include <string>

namespace lossgrid {

/// Returns a table of the registered mutants, by number of their kind, and a table of the controls.
std::string format_mutants_page();

}  // namespace lossgrid
