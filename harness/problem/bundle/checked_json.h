// SPDX-License-Identifier: Apache-2.0
// Internal to bundles: JSON from a file that may be broken or hostile. Nesting is limited, a key
// may not stand twice, and every error is one line that begins with `what`.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace lossgrid {

/// An object nested at most `max_depth` deep (1: no objects or arrays in it). Throws bad_input.
nlohmann::ordered_json parse_json_object(std::string_view text, const std::string& what,
                                         int max_depth);

/// `text` with quotes, on one line whatever it holds; shortened when it is long.
std::string printable(std::string_view text);

}  // namespace lossgrid
