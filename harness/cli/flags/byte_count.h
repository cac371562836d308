// SPDX-License-Identifier: Apache-2.0
// Numbers of bytes in flags, with a decimal or a binary unit.
#pragma once

#include <cstdint>
#include <string>

namespace lossgrid {

/// Reads "80GiB", "80GB", "512MiB" or "1000000", the value of `flag`. Throws bad_input.
std::int64_t parse_bytes(const std::string& text, const std::string& flag);

}  // namespace lossgrid
