// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/case/case_spec.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/problem/case/case_keys.h"
#include "harness/problem/case/case_sweep.h"

namespace lossgrid {
namespace {

constexpr std::string_view kOptionPrefix = "objective.";

bool is_identifier(std::string_view text) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !text.empty() && is_letter(text[0]) && std::all_of(text.begin(), text.end(), [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9');
  });
}

/// True for a word of letters, digits, _ and - that begins with a letter and is no JSON literal:
/// "seq-mask-tis".
bool is_bare_word(std::string_view text) {
  std::string letters(text);
  std::replace(letters.begin() + (letters.empty() ? 0 : 1), letters.end(), '-', '_');
  return is_identifier(letters) && text != "true" && text != "false" && text != "null";
}

/// Returns the value of an option as canonical JSON text. A bare word stands for a string, so that
/// a shell needs no quotes within quotes.
std::string canonical_option(std::string_view key, std::string_view text) {
  const auto value = nlohmann::json::parse(text, nullptr, false);
  if (value.is_primitive() && !value.is_discarded()) return value.dump();
  if (value.is_discarded() && is_bare_word(text)) return nlohmann::json(text).dump();
  throw_bad_input("{} = '{}' is not a JSON number, string, true, false or null", key, text);
}

/// Returns an option's JSON as one word: a string without quotes where possible, else with blanks
/// escaped (compact JSON has them only inside strings).
std::string option_word(const std::string& value) {
  const auto json = nlohmann::json::parse(value);
  if (json.is_string() && is_bare_word(json.get<std::string>())) return json.get<std::string>();
  std::string word;
  for (const char c : value) {
    if (c == ' ') {
      word += "\\u0020";
    } else {
      word += c;
    }
  }
  return word;
}

nlohmann::ordered_json value_json(const CaseKey& key, std::string value) {
  if (key.type == JsonType::text) return value;
  return nlohmann::ordered_json::parse(value);
}

/// `KeyDefault`: the value of a key in the default case, as text and as JSON. It is kept because
/// most keys of a case have it, and a case is described for each of its trials.
struct KeyDefault {
  std::string text;
  nlohmann::ordered_json json;
};

/// Returns the defaults of case_keys(), in its order.
const std::vector<KeyDefault>& key_defaults() {
  static const std::vector<KeyDefault> defaults = [] {
    std::vector<KeyDefault> made;
    for (const CaseKey& key : case_keys()) {
      const std::string text = key.get(CaseSpec());
      made.push_back({text, value_json(key, text)});
    }
    return made;
  }();
  return defaults;
}

}  // namespace

void set_case_key(CaseSpec& spec, std::string_view key, std::string_view text) {
  if (key == "objective") {
    if (!is_identifier(text)) throw_bad_input("objective = '{}' is not a name", text);
    spec.objective.kind = std::string(text);
  } else if (key.substr(0, kOptionPrefix.size()) == kOptionPrefix) {
    const std::string_view option = key.substr(kOptionPrefix.size());
    if (!is_identifier(option)) throw_bad_input("{}: '{}' is not an option name", key, option);
    if (option == "kind") throw_bad_input("{}: the kind is given as objective=KIND", key);
    spec.objective.options[std::string(option)] = canonical_option(key, text);
  } else if (const CaseKey* known = find_case_key(key)) {
    known->set(spec, text);
  } else {
    throw Error(ErrorCode::bad_input, unknown_name_message("case key", key, case_key_names()));
  }
}

bool operator==(const CaseSpec& a, const CaseSpec& b) {
  const std::span<const CaseKey> keys = case_keys();
  return a.objective == b.objective && std::all_of(keys.begin(), keys.end(), [&](const auto& key) {
           return key.get(a) == key.get(b);
         });
}

std::string format_case(const CaseSpec& spec) {
  std::vector<std::string> words;
  if (spec.objective.kind != ObjectiveSpec().kind) {
    words.push_back("objective=" + spec.objective.kind);
  }
  for (const auto& [option, value] : spec.objective.options) {
    const std::string word = std::string(kOptionPrefix) + option + '=';
    words.push_back(word + option_word(value));
  }
  const std::span<const CaseKey> keys = case_keys();
  for (std::size_t k = 0; k < keys.size(); ++k) {
    const std::string value = keys[k].get(spec);
    if (value != key_defaults()[k].text) words.push_back(keys[k].name + '=' + value);
  }
  return words.empty() ? "objective=nll" : join(words, " ");
}

CaseSpec parse_case(std::string_view text) {
  CaseSpec spec;
  for (const auto& [key, value] : split_case_text(text)) {
    if (value.starts_with('[')) {
      throw_bad_input("{} = {}: an array makes several cases, where one is asked for", key, value);
    }
    set_case_key(spec, key, value);
  }
  return spec;
}

nlohmann::ordered_json case_to_json(const CaseSpec& spec) {
  nlohmann::ordered_json out;
  if (spec.objective.options.empty()) {
    out["objective"] = spec.objective.kind;
  } else {
    out["objective"]["kind"] = spec.objective.kind;
    for (const auto& [option, value] : spec.objective.options) {
      out["objective"][option] = nlohmann::ordered_json::parse(value);
    }
  }
  // Appended, because operator[] would compare the name with all earlier keys.
  auto& members = out.get_ref<nlohmann::ordered_json::object_t&>();
  const std::span<const CaseKey> keys = case_keys();
  members.reserve(members.size() + keys.size());
  for (std::size_t k = 0; k < keys.size(); ++k) {
    const KeyDefault& of_key = key_defaults()[k];
    std::string value = keys[k].get(spec);
    members.emplace_back(
        keys[k].name, value == of_key.text ? of_key.json : value_json(keys[k], std::move(value)));
  }
  return out;
}

}  // namespace lossgrid
