// SPDX-License-Identifier: Apache-2.0
// The message about arguments that no command takes: which one, and the option that was meant.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace lossgrid {

/// "unknown option --sutie; did you mean --suite? (see lossgrid run --help)". `app` has parsed a
/// command line and found too much in it.
std::string unexpected_argument_message(const CLI::App& app);

}  // namespace lossgrid
