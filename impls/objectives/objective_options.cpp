// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/objective_options.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>
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

std::optional<std::size_t> as_one_of(const std::string& text, const OptionNames& names) {
  const Json value = Json::parse(text, nullptr, false);
  if (!value.is_string()) return std::nullopt;
  for (std::size_t k = 0; k < names.size(); ++k) {
    if (value.get<std::string>() == names[k].name) return k;
  }
  return std::nullopt;
}

std::string joined(const OptionNames& names) {
  std::vector<std::string> texts;
  for (const OptionName& name : names) texts.emplace_back(name.name);
  return join(texts, ", ");
}

std::string as_text(const std::optional<double>& number) {
  return number ? Json(*number).dump() : "null";
}

/// Returns JSON texts as they are written in reports.
std::vector<std::string> canonical(const std::vector<const char*>& texts) {
  std::vector<std::string> out;
  for (const char* text : texts) out.push_back(Json::parse(text).dump());
  return out;
}

/// Returns the numbers that are drawn for an option whose list states none.
std::vector<std::string> numbers_beside(double number, const NumberRule& rule) {
  std::vector<std::string> texts;
  for (const double other : {number / 2, 2 * number, number + 0.5}) {
    const bool is_allowed = rule.holds == nullptr || rule.holds(other);
    if (is_allowed && other != number) texts.push_back(Json(other).dump());
  }
  return texts;
}

}  // namespace

const std::string* OptionReader::find(const char* option) const {
  known_.push_back(option);
  const auto at = options_.find(option);
  return at == options_.end() ? nullptr : &at->second;
}

void OptionReader::describe(const char* option, const OptionText& text,
                            std::vector<std::string> choices, std::string fallback,
                            std::string value) const {
  described_.push_back({option,
                        text.effect,
                        text.upstream,
                        text.rule.text,
                        std::move(fallback),
                        std::move(value),
                        std::move(choices),
                        canonical(text.draws),
                        {}});
}

void OptionReader::describe_names(const char* option, const OptionText& text,
                                  const OptionNames& names, bool or_null, std::string fallback,
                                  std::string value) const {
  describe(option, text, {}, std::move(fallback), std::move(value));
  OptionDescription& described = described_.back();
  for (const OptionName& name : names) {
    const std::string choice = Json(name.name).dump();
    described.choices.push_back(choice);
    if (*name.frameworks != 0) described.frameworks[choice] = name.frameworks;
  }
  if (or_null) described.choices.emplace_back("null");
  described.draws = described.choices;
}

void OptionReader::require_rule(const char* option, const NumberRule& rule, double value,
                                const char* more) const {
  if (rule.holds == nullptr || rule.holds(value) || !broken_.empty()) return;
  broken_ = fmt::format("{} {}{}", option, rule.text, more);
}

void OptionReader::read(const char* option, bool& member, const OptionText& text) const {
  const bool fallback = member;
  if (const std::string* given = find(option)) {
    const Json value = Json::parse(*given, nullptr, false);
    if (!value.is_boolean()) refuse(owner_, option, *given, "true or false");
    member = value.get<bool>();
  }
  if (!describes()) return;
  describe(option, text, {"true", "false"}, Json(fallback).dump(), Json(member).dump());
  described_.back().draws = {"true", "false"};
}

void OptionReader::read(const char* option, double& member, const OptionText& text) const {
  const double fallback = member;
  if (const std::string* given = find(option)) {
    const std::optional<double> value = as_number(*given);
    if (!value) refuse(owner_, option, *given, "a number");
    member = *value;
    require_rule(option, text.rule, member, "");
  }
  if (!describes()) return;
  const std::string usual = Json(fallback).dump();
  describe(option, text, {"0.0", usual}, usual, Json(member).dump());
  if (text.draws.empty()) described_.back().draws = numbers_beside(fallback, text.rule);
}

void OptionReader::read(const char* option, std::optional<double>& member,
                        const OptionText& text) const {
  const std::optional<double> fallback = member;
  const std::string* given = find(option);
  if (given != nullptr && is_null(*given)) {
    member = std::nullopt;
  } else if (given != nullptr) {
    member = as_number(*given);
    if (!member) refuse(owner_, option, *given, "a number or null");
    require_rule(option, text.rule, *member, ", or null");
  }
  if (!describes()) return;
  std::vector<std::string> choices{"null"};
  if (fallback) choices.push_back(as_text(fallback));
  describe(option, text, std::move(choices), as_text(fallback), as_text(member));
  if (text.draws.empty()) described_.back().draws = numbers_beside(fallback.value_or(1), text.rule);
}

bool OptionReader::flag(const char* option, const OptionText& text) const {
  bool value = false;
  read(option, value, text);
  return value;
}

double OptionReader::number(const char* option, double fallback, const OptionText& text) const {
  read(option, fallback, text);
  return fallback;
}

std::optional<double> OptionReader::optional_number(const char* option,
                                                    std::optional<double> fallback,
                                                    const OptionText& text) const {
  read(option, fallback, text);
  return fallback;
}

std::size_t OptionReader::index(const char* option, std::size_t fallback, const OptionNames& names,
                                const OptionText& text) const {
  std::size_t at = fallback;
  if (const std::string* given = find(option)) {
    const std::optional<std::size_t> found = as_one_of(*given, names);
    if (!found) refuse(owner_, option, *given, "one of " + joined(names));
    at = *found;
  }
  if (describes()) {
    describe_names(option, text, names, false, Json(names[fallback].name).dump(),
                   Json(names[at].name).dump());
  }
  return at;
}

std::optional<std::size_t> OptionReader::optional_index(const char* option,
                                                        const OptionNames& names,
                                                        const OptionText& text) const {
  const std::string* given = find(option);
  std::optional<std::size_t> at;
  if (given != nullptr && !is_null(*given)) {
    at = as_one_of(*given, names);
    if (!at) refuse(owner_, option, *given, "one of " + joined(names) + " or null");
  }
  if (describes()) {
    describe_names(option, text, names, true, "null", at ? Json(names[*at].name).dump() : "null");
  }
  return at;
}

void OptionReader::require_all_known() const {
  const std::vector<std::string> known(known_.begin(), known_.end());
  require_known_options(options_, known, owner_);
  if (!broken_.empty()) throw_bad_input("{}: {}", owner_, broken_);
}

}  // namespace lossgrid
