// SPDX-License-Identifier: Apache-2.0
// JSON from a file that may be broken or hostile, and typed access to members of its objects. The
// parsers limit nesting and refuse a key that an object has twice. Every function throws bad_input
// with one line that begins with `where` and names the key.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace lossgrid {

/// Parses an object nested at most `max_depth` deep (1: without objects or arrays in it). Errors
/// name the byte.
nlohmann::ordered_json parse_json_object(std::string_view text, const std::string& where,
                                         int max_depth);

/// Parses a text file that people edit, nested at most 16 deep. Errors name the line.
nlohmann::ordered_json parse_json_file(std::string_view text, const std::string& path);

/// Returns `text` in quotes on one line; shortened if it is long.
std::string printable(std::string_view text);

/// Throws unless `object`, called `what` in messages, is an object and all of its keys are in
/// `known`.
void require_known_keys(const nlohmann::ordered_json& object, const std::vector<std::string>& known,
                        const std::string& what, const std::string& where);

/// Returns a required member.
const nlohmann::ordered_json& required_member(const nlohmann::ordered_json& object,
                                              std::string_view key, const std::string& where);

/// Returns a required string.
std::string required_text(const nlohmann::ordered_json& object, std::string_view key,
                          const std::string& where);

/// Returns a required array, which must not be empty.
const nlohmann::ordered_json& required_list(const nlohmann::ordered_json& object,
                                            std::string_view key, const std::string& where);

/// Returns a required array of distinct names, which must not be empty.
std::vector<std::string> required_names(const nlohmann::ordered_json& object, std::string_view key,
                                        const std::string& where);

/// Returns a number, or `otherwise` if it is missing.
double number_or(const nlohmann::ordered_json& object, std::string_view key, double otherwise,
                 const std::string& where);

}  // namespace lossgrid
