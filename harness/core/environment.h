// SPDX-License-Identifier: Apache-2.0
// What a report says about the machine and the build. Only facts that help to read a result: no
// host name, and of the environment variables only those that change what runs.
#pragma once

#include <nlohmann/json.hpp>

namespace lossgrid {

extern const char* const kVersion;  // of this build, "0.1.0"

/// {"tool": {...}, "host": {...}, "variables": {...}}. The build is told by its revision in git,
/// with "-dirty" behind it where sources differ from that; such a build, and one without git, has
/// the fingerprint of the executable besides.
nlohmann::ordered_json capture_environment();

}  // namespace lossgrid
