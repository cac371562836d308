// SPDX-License-Identifier: Apache-2.0
// Command lines as text: what a process was given, without some of its flags, as a shell reads it.
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

/// `arguments` without `flags`, given as "--report FILE" or "--report=FILE".
std::vector<std::string> without_flags(std::span<const std::string> arguments,
                                       std::span<const CommandFlag> flags);

/// `words` with blanks between them, quoted where a shell would take them for something else.
std::string shell_line(std::span<const std::string> words);

}  // namespace lossgrid
