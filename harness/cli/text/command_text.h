// SPDX-License-Identifier: Apache-2.0
// Command lines as text: arguments without some of their flags, in the form that a shell reads.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lossgrid {

struct CommandFlag {
  std::string_view name;  // "--report"
  bool has_value;
};

/// Returns `arguments` without `flags`, which may stand there as "--report FILE" or
/// "--report=FILE".
std::vector<std::string> without_flags(std::span<const std::string> arguments,
                                       std::span<const CommandFlag> flags);

/// Joins `words` with blanks; quotes those that a shell would take for something else.
std::string shell_line(std::span<const std::string> words);

}  // namespace lossgrid
