// SPDX-License-Identifier: Apache-2.0
// Manual page lossgrid(1), generated from the help of all commands.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace lossgrid {

/// Returns the page in the markup of man.
std::string format_man_page(const CLI::App& app);

}  // namespace lossgrid
