// SPDX-License-Identifier: Apache-2.0
// The conventions that a loaded function may declare, from python/lossgrid/conventions.json, which
// the Python package reads as well: words, what they need, and facts of a problem that a function
// is refused without its word.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace lossgrid {

/// Returns the words of an argument that is one word ("inputs", "rows", ...), the default first.
const std::vector<std::string>& convention_words(const std::string& key);

/// Returns the words of a list ("rounds", "takes").
const std::vector<std::string>& listed_words(const std::string& key);

/// Returns the first reason for which a function is not given a problem (problem_json.h): a fact
/// that it does not take, by takes(word).
std::optional<std::string> refusal(const nlohmann::json& problem,
                                   const std::function<bool(const std::string&)>& takes);

/// Checks the words of a plugin: those of "rows", "overwrites", "rounds" and "takes" that plugins
/// take, and the declaration that words of "takes" need. Throws bad_input.
void require_plugin_words(const nlohmann::json& declaration);

}  // namespace lossgrid
