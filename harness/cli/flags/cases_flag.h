// SPDX-License-Identifier: Apache-2.0
// The flag of commands that take suites by name or models: another folder of suites.
#pragma once

namespace CLI {
class App;
}

namespace lossgrid {

/// Adds --cases DIR, which takes effect while the command line is parsed. A folder that is not
/// there is bad_input.
void add_cases_flag(CLI::App& command);

}  // namespace lossgrid
