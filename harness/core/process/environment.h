// SPDX-License-Identifier: Apache-2.0
// Description of the machine and the build in a report: facts that help to read a result. It holds
// no host name. It holds only environment variables that change the run.
#pragma once

#include <nlohmann/json.hpp>

namespace lossgrid {

extern const char* const kVersion;  // version of this build, "0.1.0"

/// Returns {"tool": {...}, "host": {...}, "variables": {...}}. The build is identified by its
/// revision in git, with "-dirty" appended if sources differ from the revision. A dirty build, or a
/// build without git, also has the fingerprint of the executable.
nlohmann::ordered_json capture_environment();

}  // namespace lossgrid
