// SPDX-License-Identifier: Apache-2.0
// Command lines as text: removal of flags, and quoting for a shell.
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

/// Returns `arguments` without `flags`, in both forms "--report FILE" and "--report=FILE".
std::vector<std::string> without_flags(std::span<const std::string> arguments,
                                       std::span<const CommandFlag> flags);

/// Joins `words` with blanks and quotes words with special characters of a shell.
std::string shell_line(std::span<const std::string> words);

}  // namespace lossgrid
