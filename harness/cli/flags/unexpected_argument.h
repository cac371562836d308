// SPDX-License-Identifier: Apache-2.0
// Message about an argument that the command does not take, with the nearest option.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace lossgrid {

/// Returns "unknown option --sutie; did you mean --suite? (see lossgrid run --help)". `app` has
/// parsed a command line with too many arguments.
std::string unexpected_argument_message(const CLI::App& app);

}  // namespace lossgrid
