// SPDX-License-Identifier: Apache-2.0
// Words that may follow on a command line, from the commands and flags of the parser.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lossgrid {

/// Returns the words that may take the place of the last of `words`, the begin of a command line
/// behind the name of the program: commands, flags, or values of the flag before it. Of a value
/// that is a list the last element is completed. Nothing where a file is wanted, or any text.
std::vector<std::string> completion_words(const CLI::App& app, std::vector<std::string> words);

}  // namespace lossgrid
