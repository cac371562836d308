// SPDX-License-Identifier: Apache-2.0
// The catalogue of mutants and controls as tables in Markdown: the generated part of
// docs/mutants.md.
#pragma once

#include <string>

namespace lossgrid {

/// Returns one table of the registered mutants, by number of their kind, and one of the controls.
std::string format_mutants_page();

}  // namespace lossgrid
