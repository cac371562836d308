// SPDX-License-Identifier: Apache-2.0
// Flag of commands that take names of suites or models: another folder of suites.
#pragma once

namespace CLI {
class App;
}

namespace lossgrid {

/// Adds --cases DIR, which takes effect while the command line is parsed. Throws bad_input for a
/// missing folder.
void add_cases_flag(CLI::App& command);

}  // namespace lossgrid
