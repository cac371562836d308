// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/case/case_sweep.h"

#include <set>

#include <nlohmann/json.hpp>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/problem/case/case_keys.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;

bool is_option(std::string_view key) {
  return key.starts_with("objective.");
}

/// One value of a swept key: its settings, and its part in a case's name.
struct Choice {
  std::vector<std::pair<std::string, std::string>> assignments;
  std::string label;
};

using Axis = std::vector<Choice>;

std::string and_also(const std::string& left, const std::string& right) {
  return left.empty() || right.empty() ? left + right : left + ' ' + right;
}

Choice combine(const Choice& left, const Choice& right) {
  Choice both = left;
  both.assignments.insert(both.assignments.end(), right.assignments.begin(),
                          right.assignments.end());
  both.label = and_also(left.label, right.label);
  return both;
}

/// Returns the product of the axes; the last axis runs fastest.
Axis product(const std::vector<Axis>& axes) {
  Axis all{Choice{}};
  for (const Axis& axis : axes) {
    if (all.size() * axis.size() > kMaxSweptCases) {
      throw_bad_input("the arrays make more than {} cases", kMaxSweptCases);
    }
    Axis longer;
    longer.reserve(all.size() * axis.size());
    for (const Choice& left : all) {
      for (const Choice& right : axis) longer.push_back(combine(left, right));
    }
    all = std::move(longer);
  }
  return all;
}

Axis make_axis(const std::string& key, const std::vector<std::string>& values, bool swept) {
  if (values.empty()) throw_bad_input("{} = [] is an empty array", key);
  Axis axis;
  for (const std::string& value : values) {
    axis.push_back({{{key, value}}, swept ? key + '=' + value : std::string()});
  }
  return axis;
}

std::vector<CaseSpec> make_cases(const std::vector<Axis>& axes, const std::string& name) {
  std::vector<CaseSpec> cases;
  for (const Choice& choice : product(axes)) {
    CaseSpec spec;
    for (const auto& [key, value] : choice.assignments) set_case_key(spec, key, value);
    spec.name = and_also(name, choice.label);
    cases.push_back(std::move(spec));
  }
  return cases;
}

/// Returns a JSON value as text. Options of an objective keep their JSON form; for keys of the
/// table the type is checked, so that "vocab": "96" does not pass for a number.
std::string scalar_text(const std::string& key, const Json& value) {
  if (value.is_structured()) throw_bad_input("{} = {} is not a plain value", key, value.dump());
  const CaseKey* known = find_case_key(key);
  if (known != nullptr || key == "objective") {
    const JsonType type = known != nullptr ? known->type : JsonType::text;
    if (type == JsonType::number && !value.is_number()) {
      throw_bad_input("{} = {} is not a number", key, value.dump());
    }
    if (type == JsonType::boolean && !value.is_boolean()) {
      throw_bad_input("{} = {} is not true or false", key, value.dump());
    }
    if (type == JsonType::text && !value.is_string()) {
      throw_bad_input("{} = {} is not a string", key, value.dump());
    }
  }
  return value.is_string() && !is_option(key) ? value.get<std::string>() : value.dump();
}

Axis json_axis(const std::string& key, const Json& value) {
  std::vector<std::string> texts;
  if (!value.is_array()) {
    texts.push_back(scalar_text(key, value));
  } else {
    for (const Json& element : value) texts.push_back(scalar_text(key, element));
  }
  return make_axis(key, texts, value.is_array());
}

/// Reads a kind, an object of a kind and its options, or an array of kinds and objects. Inside an
/// array the name gets every option, since the elements may differ in any option.
Axis objective_axis(const Json& value, bool inside_array) {
  if (value.is_array()) {
    if (inside_array) throw_bad_input("objective: an array inside an array");
    if (value.empty()) throw_bad_input("objective = [] is an empty array");
    Axis all;
    for (const Json& element : value) {
      const Axis part = objective_axis(element, true);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }
  if (!value.is_object()) {
    return make_axis("objective", {scalar_text("objective", value)}, inside_array);
  }
  if (!value.contains("kind")) throw_bad_input("objective: the object has no 'kind'");
  std::vector<Axis> axes;
  for (const auto& [option, option_value] : value.items()) {
    const std::string key = option == "kind" ? "objective" : "objective." + option;
    Axis axis = json_axis(key, option_value);
    if (inside_array) {
      for (Choice& choice : axis) {
        choice.label = choice.assignments[0].first + '=' + choice.assignments[0].second;
      }
    }
    axes.push_back(std::move(axis));
  }
  return product(axes);
}

std::vector<CaseSpec> read_cases(const Json& object) {
  if (!object.is_object()) throw_bad_input("a case is a JSON object, not {}", object.type_name());
  std::string name;
  std::vector<Axis> axes;
  for (const auto& [key, value] : object.items()) {
    if (key == "name") {
      if (!value.is_string()) throw_bad_input("name = {} is not a string", value.dump());
      name = value.get<std::string>();
    } else if (key == "objective") {
      axes.push_back(objective_axis(value, false));
    } else {
      axes.push_back(json_axis(key, value));
    }
  }
  return make_cases(axes, name);
}

/// Returns the elements of "[a,b]". The elements of an option form a JSON array, so that strings
/// may hold commas.
std::vector<std::string> array_elements(const std::string& key, const std::string& text) {
  if (text.back() != ']') throw_bad_input("{} = {} does not end with ']'", key, text);
  if (is_option(key)) {
    const auto array = nlohmann::json::parse(text, nullptr, false);
    if (array.is_array()) {
      std::vector<std::string> elements;
      for (const auto& element : array) elements.push_back(element.dump());
      return elements;
    }
  }
  const std::string inside = text.substr(1, text.size() - 2);
  return inside.empty() ? std::vector<std::string>() : split(inside, ',');
}

}  // namespace

std::vector<std::pair<std::string, std::string>> split_case_text(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  std::vector<std::pair<std::string, std::string>> words;
  std::set<std::string, std::less<>> seen;
  for (std::size_t at = text.find_first_not_of(kBlanks); at != std::string_view::npos;
       at = text.find_first_not_of(kBlanks)) {
    text.remove_prefix(at);
    const std::string_view word = text.substr(0, text.find_first_of(kBlanks));
    text.remove_prefix(word.size());
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      throw_bad_input("'{}' in a case is not key=value", word);
    }
    std::string key(word.substr(0, equals));
    if (equals + 1 == word.size()) throw_bad_input("case key '{}' has no value", key);
    if (!seen.insert(key).second) throw_bad_input("case key '{}' is given twice", key);
    words.emplace_back(std::move(key), word.substr(equals + 1));
  }
  return words;
}

std::vector<CaseSpec> parse_sweep(std::string_view text) {
  std::vector<Axis> axes;
  for (const auto& [key, value] : split_case_text(text)) {
    const bool swept = value[0] == '[';
    axes.push_back(make_axis(
        key, swept ? array_elements(key, value) : std::vector<std::string>{value}, swept));
  }
  return make_cases(axes, "");
}

std::vector<CaseSpec> cases_from_json(const nlohmann::ordered_json& object,
                                      const std::string& where) {
  try {
    return read_cases(object);
  } catch (const Error& error) {
    const std::string prefix = where.empty() ? where : where + ": ";
    throw Error(error.code(), prefix + error.what());
  }
}

}  // namespace lossgrid
