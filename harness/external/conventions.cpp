// SPDX-License-Identifier: Apache-2.0
#include "harness/external/conventions.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "external/conventions_text.h"
#include "harness/core/error.h"
#include "harness/core/text.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;

const Json& conventions() {
  static const Json all = Json::parse(kConventionsText);
  return all;
}

bool lists(const nlohmann::json& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

void require_known(const nlohmann::json& given, const char* key,
                   const std::vector<std::string>& known) {
  for (const std::string word : given) {
    if (std::find(known.begin(), known.end(), word) != known.end()) continue;
    throw Error(ErrorCode::bad_input, unknown_name_message(key, word, known));
  }
}

/// True if the problem has these facts.
bool has_facts(const nlohmann::json& problem, const nlohmann::json& facts) {
  return std::all_of(facts.items().begin(), facts.items().end(),
                     [&](const auto& fact) { return problem.at(fact.key()) == fact.value(); });
}

std::vector<std::string> words_of_plugins(const std::string& key) {
  std::vector<std::string> words;
  for (const Json& entry : conventions()["lists"][key]) {
    if (entry.value("plugins", false)) words.push_back(entry["word"]);
  }
  return words;
}

}  // namespace

const std::vector<std::string>& convention_words(const std::string& key) {
  static const auto all =
      conventions()["words"].get<std::map<std::string, std::vector<std::string>>>();
  return all.at(key);
}

const std::vector<std::string>& listed_words(const std::string& key) {
  static const auto all = [] {
    std::map<std::string, std::vector<std::string>> words;
    for (const auto& [list, entries] : conventions()["lists"].items()) {
      for (const Json& entry : entries) words[list].push_back(entry["word"]);
    }
    return words;
  }();
  return all.at(key);
}

std::optional<std::string> refusal(const nlohmann::json& problem,
                                   const std::function<bool(const std::string&)>& takes) {
  for (const Json& entry : conventions()["refusals"]) {
    const std::string word = entry["word"];
    if (takes(word) || !has_facts(problem, entry.value("where", Json::object())) ||
        has_facts(problem, entry["unless"])) {
      continue;
    }
    const std::string reason = entry["reason"];
    return fmt::format("{}: takes=\"{}\"", reason, word);
  }
  return std::nullopt;
}

void require_plugin_words(const nlohmann::json& declaration) {
  const Json& plain = conventions()["plugins"];
  require_known(nlohmann::json::array({declaration.at("rows")}), "rows", plain["rows"]);
  require_known(declaration.at("overwrites"), "overwrites", plain["overwrites"]);
  require_known(declaration.at("rounds"), "rounds", words_of_plugins("rounds"));
  const nlohmann::json& takes = declaration.at("takes");
  require_known(takes, "takes", words_of_plugins("takes"));
  for (const Json& entry : conventions()["lists"]["takes"]) {
    const std::string word = entry["word"];
    if (!lists(takes, word) || !entry.contains("needs")) continue;
    for (const auto& [key, needed] : entry["needs"].items()) {
      const std::string other = needed;
      const nlohmann::json& given = declaration.at(key);
      if (given.is_array() ? lists(given, other) : given == other) continue;
      const std::string what = key == "takes" ? "" : key + ' ';
      throw_bad_input("takes '{}' has no meaning without {}'{}'", word, what, other);
    }
  }
}

}  // namespace lossgrid
