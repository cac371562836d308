// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/case/checked_json.h"

#include <algorithm>
#include <set>

#include "harness/core/error.h"
#include "harness/core/text.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;

/// Parses with the checks that all files share. Repeated keys, of which the library would keep the
/// last, and deep nesting, whose size grows, are refused while parsing. Throws Json::exception for
/// a broken text.
Json parse_unique(std::string_view text, const std::string& where, int max_depth) {
  std::vector<std::set<std::string>> keys;
  const Json::parser_callback_t watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    switch (event) {
      case Json::parse_event_t::object_start:
      case Json::parse_event_t::array_start:
        if (depth >= max_depth) {
          throw_bad_input("{}: nested deeper than {} levels", where, max_depth);
        }
        keys.emplace_back();
        break;
      case Json::parse_event_t::object_end:
      case Json::parse_event_t::array_end:
        keys.pop_back();
        break;
      case Json::parse_event_t::key: {
        const auto& key = parsed.get_ref<const std::string&>();
        if (!keys.back().insert(key).second) {
          throw_bad_input("{}: the key {} stands twice", where, printable(key));
        }
        break;
      }
      case Json::parse_event_t::value:
        break;
    }
    return true;
  };
  return Json::parse(text, watch);
}

/// Returns the first line of a parser's message, without its own prefix.
std::string parse_reason(const Json::parse_error& error) {
  std::string text = error.what();
  const std::size_t start = text.find("] ");
  if (start != std::string::npos) text.erase(0, start + 2);
  const std::size_t detail = text.find(": ");
  if (detail != std::string::npos) text.erase(0, detail + 2);
  return text;
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  const bool is_long = text.size() > kLongest;
  const std::string shown(text.substr(0, kLongest));
  return Json(shown).dump(-1, ' ', true, Json::error_handler_t::replace) + (is_long ? "..." : "");
}

Json parse_json_object(std::string_view text, const std::string& where, int max_depth) {
  Json parsed;
  try {
    parsed = parse_unique(text, where, max_depth);
  } catch (const Json::parse_error& error) {
    throw_bad_input("{}: not JSON at byte {}", where, error.byte);
  } catch (const Json::exception&) {  // a number that no double holds
    throw_bad_input("{}: not JSON", where);
  }
  if (!parsed.is_object()) throw_bad_input("{}: not a JSON object", where);
  return parsed;
}

Json parse_json_file(std::string_view text, const std::string& path) {
  constexpr int kMaxDepth = 16;
  try {
    return parse_unique(text, path, kMaxDepth);
  } catch (const Json::parse_error& error) {
    const std::string_view before = text.substr(0, error.byte);
    throw_bad_input("{}:{}: malformed JSON: {}", path,
                    1 + std::count(before.begin(), before.end(), '\n'), parse_reason(error));
  } catch (const Json::exception&) {  // a number that no double holds
    throw_bad_input("{}: malformed JSON", path);
  }
}

void require_known_keys(const Json& object, const std::vector<std::string>& known,
                        const std::string& what, const std::string& where) {
  if (!object.is_object()) {
    throw_bad_input("{}: a {} is a JSON object, not {}", where, what, object.type_name());
  }
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      throw_bad_input("{}: {}", where, unknown_name_message(what + " key", key, known));
    }
  }
}

const Json& required_member(const Json& object, std::string_view key, const std::string& where) {
  const auto at = object.find(key);
  if (at == object.end()) throw_bad_input("{}: there is no '{}'", where, key);
  return *at;
}

std::string required_text(const Json& object, std::string_view key, const std::string& where) {
  const Json& value = required_member(object, key, where);
  if (!value.is_string()) throw_bad_input("{}: {} is not a string", where, key);
  return value.get<std::string>();
}

const Json& required_list(const Json& object, std::string_view key, const std::string& where) {
  const Json& value = required_member(object, key, where);
  if (!value.is_array() || value.empty()) {
    throw_bad_input("{}: {} is not an array of at least one element", where, key);
  }
  return value;
}

std::vector<std::string> required_names(const Json& object, std::string_view key,
                                        const std::string& where) {
  std::vector<std::string> names;
  for (const Json& element : required_list(object, key, where)) {
    if (!element.is_string() || element.get<std::string>().empty()) {
      throw_bad_input("{}: {}[{}] = {} is not a name", where, key, names.size(), element.dump());
    }
    names.push_back(element.get<std::string>());
    if (std::count(names.begin(), names.end(), names.back()) > 1) {
      throw_bad_input("{}: {} has '{}' twice", where, key, names.back());
    }
  }
  return names;
}

double number_or(const Json& object, std::string_view key, double otherwise,
                 const std::string& where) {
  const auto at = object.find(key);
  if (at == object.end()) return otherwise;
  if (!at->is_number()) throw_bad_input("{}: {} is not a number", where, key);
  return at->get<double>();
}

}  // namespace lossgrid
