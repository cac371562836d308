// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/objective_options.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/loss/registry.h"

namespace lossgrid {
namespace {

using Json = nlohmann::json;

/// Returns the text on one line, shortened.
std::string shown(const std::string& text) {
  constexpr std::size_t kLongest = 60;
  const Json value = Json::parse(text, nullptr, false);
  const std::string line = (value.is_discarded() ? Json(text) : value)
                               .dump(-1, ' ', true, Json::error_handler_t::replace);
  return line.size() > kLongest ? line.substr(0, kLongest) + "..." : line;
}

[[noreturn]] void refuse(std::string_view owner, const std::string& option, const std::string& text,
                         const std::string& rule) {
  throw_bad_input("{}: {} = {} is not {}", owner, option, shown(text), rule);
}

bool is_null(const std::string& text) {
  return Json::parse(text, nullptr, false).is_null();
}

std::optional<double> as_number(const std::string& text) {
  const Json value = Json::parse(text, nullptr, false);
  if (!value.is_number() || !std::isfinite(value.get<double>())) return std::nullopt;
  return value.get<double>();
}

std::optional<std::string> as_one_of(const std::string& text,
                                     const std::vector<std::string>& names) {
  const Json value = Json::parse(text, nullptr, false);
  if (!value.is_string()) return std::nullopt;
  const auto found = std::find(names.begin(), names.end(), value.get<std::string>());
  return found == names.end() ? std::nullopt : std::optional(*found);
}

}  // namespace

const std::string* OptionReader::find(const std::string& option) const {
  known_.push_back(option);
  const auto at = options_.find(option);
  return at == options_.end() ? nullptr : &at->second;
}

template <typename T>
T OptionReader::note(const std::string& option, T value) const {
  if constexpr (requires { value.has_value(); }) {
    values_[option] = value ? Json(*value).dump() : "null";
  } else {
    values_[option] = Json(value).dump();
  }
  return value;
}

void OptionReader::note_names(const std::string& option,
                              const std::vector<std::string>& names) const {
  std::vector<std::string>& texts = choices_[option];
  texts.clear();
  for (const std::string& name : names) texts.push_back(Json(name).dump());
}

bool OptionReader::flag(const std::string& option, bool fallback) const {
  choices_[option] = {"true", "false"};
  const std::string* text = find(option);
  if (text == nullptr) return note(option, fallback);
  const Json value = Json::parse(*text, nullptr, false);
  if (!value.is_boolean()) refuse(owner_, option, *text, "true or false");
  return note(option, value.get<bool>());
}

double OptionReader::number(const std::string& option, double fallback) const {
  choices_[option] = {"0.0", Json(fallback).dump()};
  const std::string* text = find(option);
  if (text == nullptr) return note(option, fallback);
  const std::optional<double> value = as_number(*text);
  if (!value) refuse(owner_, option, *text, "a number");
  return note(option, *value);
}

std::optional<double> OptionReader::optional_number(const std::string& option,
                                                    std::optional<double> fallback) const {
  choices_[option] = {"null"};
  if (fallback) choices_[option].push_back(Json(*fallback).dump());
  const std::string* text = find(option);
  if (text == nullptr) return note(option, fallback);
  if (is_null(*text)) return note(option, std::optional<double>());
  const std::optional<double> value = as_number(*text);
  if (!value) refuse(owner_, option, *text, "a number or null");
  return note(option, value);
}

std::string OptionReader::one_of(const std::string& option, const std::vector<std::string>& names,
                                 const std::string& fallback) const {
  note_names(option, names);
  const std::string* text = find(option);
  if (text == nullptr) return note(option, fallback);
  const std::optional<std::string> value = as_one_of(*text, names);
  if (!value) refuse(owner_, option, *text, "one of " + join(names, ", "));
  return note(option, *value);
}

std::optional<std::string> OptionReader::optional_one_of(
    const std::string& option, const std::vector<std::string>& names) const {
  note_names(option, names);
  choices_[option].emplace_back("null");
  const std::string* text = find(option);
  if (text == nullptr || is_null(*text)) return note(option, std::optional<std::string>());
  const std::optional<std::string> value = as_one_of(*text, names);
  if (!value) refuse(owner_, option, *text, "one of " + join(names, ", ") + " or null");
  return note(option, value);
}

void OptionReader::require_all_known() const {
  require_known_options(options_, known_, owner_);
}

}  // namespace lossgrid
