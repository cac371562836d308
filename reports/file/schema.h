// SPDX-License-Identifier: Apache-2.0
// JSON schemas of the formats that lossgrid defines, and the check of a document by one. A format
// is named "lossgrid.NAME/VERSION". All are of version 1; a change is versioned from here on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace lossgrid {

/// "report", "policy"
const std::vector<std::string>& schema_names();

/// Version of every format; files of another one are refused.
inline constexpr std::string_view kFormatVersion = "1";

/// Returns the JSON text of the schema. Throws usage with the known names.
std::string_view schema_text(std::string_view name);

/// Returns a line for each place where `document` breaks the schema, with the broken rule:
/// "/trials/0/status: Failed to match against any enum values. It is "ok".". Empty when it is
/// valid.
std::vector<std::string> schema_problems(std::string_view name,
                                         const nlohmann::ordered_json& document);

}  // namespace lossgrid
