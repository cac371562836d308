// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/bundle/checked_json.h"

#include <set>
#include <vector>

#include "harness/core/error.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

std::string printable(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  const bool is_long = text.size() > kLongest;
  const std::string shown(text.substr(0, kLongest));
  return Json(shown).dump(-1, ' ', true, Json::error_handler_t::replace) + (is_long ? "..." : "");
}

Json parse_json_object(std::string_view text, const std::string& what, int max_depth) {
  // The library keeps the last of two equal keys, and sizes grow with nesting: both are refused
  // while parsing.
  std::vector<std::set<std::string>> keys;
  const Json::parser_callback_t watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    switch (event) {
      case Json::parse_event_t::object_start:
      case Json::parse_event_t::array_start:
        if (depth >= max_depth) {
          throw_bad_input("{}: nested deeper than {} levels", what, max_depth);
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
          throw_bad_input("{}: the key {} stands twice", what, printable(key));
        }
        break;
      }
      case Json::parse_event_t::value:
        break;
    }
    return true;
  };
  Json parsed;
  try {
    parsed = Json::parse(text, watch);
  } catch (const Json::parse_error& error) {
    throw_bad_input("{}: not JSON at byte {}", what, error.byte);
  } catch (const Json::exception&) {  // a number that no double holds
    throw_bad_input("{}: not JSON", what);
  }
  if (!parsed.is_object()) throw_bad_input("{}: not a JSON object", what);
  return parsed;
}

}  // namespace lossgrid
