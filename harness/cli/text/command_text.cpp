// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/text/command_text.h"

#include <algorithm>

#include "harness/core/text.h"

namespace lossgrid {

std::vector<std::string> without_flags(std::span<const std::string> arguments,
                                       std::span<const CommandFlag> flags) {
  std::vector<std::string> kept;
  for (std::size_t k = 0; k < arguments.size(); ++k) {
    const std::string_view argument = arguments[k];
    const std::string_view flag_name = argument.substr(0, argument.find('='));
    const auto flag = std::find_if(flags.begin(), flags.end(),
                                   [&](const CommandFlag& f) { return f.name == flag_name; });
    if (flag == flags.end()) {
      kept.emplace_back(argument);
    } else if (flag->has_value && flag_name.size() == argument.size()) {
      ++k;
    }
  }
  return kept;
}

std::string shell_line(std::span<const std::string> words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    line += shell_word(word);
  }
  return line;
}

}  // namespace lossgrid
