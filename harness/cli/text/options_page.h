// SPDX-License-Identifier: Apache-2.0
// Tables of docs/objectives.md: the options of every objective.
#pragma once

#include <string>

namespace lossgrid {

/// Returns Markdown: a heading and a table for each objective.
std::string format_options_page();

}  // namespace lossgrid
