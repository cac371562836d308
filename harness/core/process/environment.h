// SPDX-License-Identifier: Apache-2.0
// Description of the machine and the build in a report: facts that help to read a result. It has no
// host name, and only those environment variables that change what runs.
#pragma once

#include <nlohmann/json.hpp>

namespace lossgrid {

extern const char* const kVersion;  // of this build, "0.1.0"

/// Returns {"tool": {...}, "host": {...}, "variables": {...}}. The build is identified by its
/// revision in git, with "-dirty" appended if sources differ from it; such a build, and one without
/// git, has the fingerprint of the executable too.
nlohmann::ordered_json capture_environment();

}  // namespace lossgrid
