// SPDX-License-Identifier: Apache-2.0
// Values of options of external implementations, by their types.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace lossgrid {

/// Returns `text` as JSON of `type` ("int", "float", "bool" or "str"). Throws bad_input.
nlohmann::json typed_value(const std::string& name, const std::string& text,
                           const std::string& type);

}  // namespace lossgrid
