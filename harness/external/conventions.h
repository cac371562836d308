// SPDX-License-Identifier: Apache-2.0
// Conventions that a loaded function may declare, from python/lossgrid/conventions.json, which the
// Python package reads as well. A new word needs a line there and code that implements it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace lossgrid {

/// Returns the words of an argument that is one word ("inputs", "rows", ...), the default first.
const std::vector<std::string>& convention_words(const std::string& key);

/// Returns the words of a list ("rounds", "takes").
const std::vector<std::string>& listed_words(const std::string& key);

/// Checks that plugins support the declared words of "rows", "overwrites", "rounds" and "takes",
/// and that the declaration fits its words of "takes". Throws bad_input.
void require_plugin_words(const nlohmann::json& declaration);

}  // namespace lossgrid
