// SPDX-License-Identifier: Apache-2.0
// The manual page lossgrid(1), made of the help of all commands.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace lossgrid {

/// Returns the page in the language of man.
std::string format_man_page(const CLI::App& app);

}  // namespace lossgrid
