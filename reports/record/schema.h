// SPDX-License-Identifier: Apache-2.0
// JSON schemas of the formats that lossgrid defines, and the check of a document by one. A format
// is named "lossgrid.NAME/MAJOR" or, after the first, "lossgrid.NAME/MAJOR.MINOR". Keys may be
// added at any time, and readers pass over those they do not know. A minor version adds ways to
// write the same, which older readers refuse and newer ones read beside the old ones; whatever else
// changes is a new major version.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace lossgrid {

/// "report", "policy"
const std::vector<std::string>& schema_names();

/// Versions of the format that this program reads, the newest last: {"1", "1.1"}.
const std::vector<std::string>& schema_versions(std::string_view name);

/// Returns the JSON text of the schema. Throws usage with the known names.
std::string_view schema_text(std::string_view name);

/// Returns a line for each place where `document` breaks the schema, with the broken rule:
/// "/trials/0/status: Failed to match against any enum values. It is "ok".". Empty when it is
/// valid.
std::vector<std::string> schema_problems(std::string_view name,
                                         const nlohmann::ordered_json& document);

}  // namespace lossgrid
