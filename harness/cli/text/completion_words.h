// SPDX-License-Identifier: Apache-2.0
// Words that may follow on a command line, from the commands and flags of the parser.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lossgrid {

/// Returns completions of the last of `words`, which begin a command line after the name of the
/// program: commands, flags, or values of the preceding flag. In a list the last element is
/// completed. Empty where the command takes a file or arbitrary text.
std::vector<std::string> completion_words(const CLI::App& app, std::vector<std::string> words);

}  // namespace lossgrid
