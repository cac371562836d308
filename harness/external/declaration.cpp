// SPDX-License-Identifier: Apache-2.0
#include "harness/external/declaration.h"

#include <algorithm>

#include <fmt/format.h>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/external/conventions.h"

namespace lossgrid {
namespace {

/// Returns the value of `key`, which must be one of the key's words; the first word if the value is
/// missing.
std::string word(const nlohmann::json& json, const char* key) {
  const std::vector<std::string>& words = convention_words(key);
  const std::string value = json.value(key, words.front());
  if (std::find(words.begin(), words.end(), value) == words.end()) {
    throw Error(ErrorCode::bad_input, unknown_name_message(key, value, words));
  }
  return value;
}

bool contains(const nlohmann::json& json, const char* key, const char* name) {
  const auto list = json.find(key);
  return list != json.end() && std::find(list->begin(), list->end(), name) != list->end();
}

/// Returns the words of a list. Each must be an allowed word of the list.
std::set<std::string, std::less<>> read_words(const nlohmann::json& json, const char* key) {
  const std::vector<std::string>& known = listed_words(key);
  std::set<std::string, std::less<>> out;
  for (const std::string word : json.value(key, nlohmann::json::array())) {
    if (std::find(known.begin(), known.end(), word) == known.end()) {
      throw Error(ErrorCode::bad_input, unknown_name_message(key, word, known));
    }
    out.insert(word);
  }
  return out;
}

bool has_word(const std::set<std::string, std::less<>>& given, const char* key,
              std::string_view word) {
  const std::vector<std::string>& known = listed_words(key);
  if (std::find(known.begin(), known.end(), word) == known.end()) {
    throw Error(ErrorCode::internal, fmt::format("{} has no word '{}'", key, word));
  }
  return given.contains(word);
}

std::int64_t multiple(const nlohmann::json& json, const char* key, std::int64_t usual = 1) {
  const std::int64_t value = json.value(key, usual);
  if (value >= 1 && value <= 65536) return value;
  throw_bad_input("'{}': {} = {} is not in [1, 65536]", json.value("name", ""), key, value);
}

}  // namespace

bool ExternalDeclaration::rounds_to(std::string_view word) const {
  return has_word(rounds, "rounds", word);
}

bool ExternalDeclaration::takes_also(std::string_view word) const {
  return has_word(takes, "takes", word);
}

ExternalDeclaration declaration_from(const nlohmann::json& json) {
  ExternalDeclaration out;
  try {
    out.name = json.at("name");
    out.summary = json.value("summary", "");
    out.file = json.value("file", "");
    out.is_engine = word(json, "kind") == "engine";
    const bool from_hidden = word(json, "inputs") == "hidden";
    out.inputs = from_hidden || out.is_engine ? InputKind::hidden : InputKind::logits;
    out.returns_logprobs =
        contains(json, "returns", "logprobs") || contains(json, "returns", "nll");
    out.returns_entropy = contains(json, "returns", "entropy");
    out.returns_loss = out.is_engine || contains(json, "returns", "loss");
    const bool is_shard = word(json, "rows") == "shard";
    out.rows = is_shard ? LogprobScope::shard : LogprobScope::pack;
    out.gradient_summed_over_cp = word(json, "gradient") == "summed_over_cp";
    const bool in_slices = word(json, "gradients") != "replicated";
    if (out.is_engine) {
      out.weight_gradient = in_slices ? WeightGradientParts::slices : WeightGradientParts::replicas;
    }
    out.scale = parse_scale(json.value("scale", "1"), "scale");
    out.pads_with_minus_inf = json.value("vocab_split", "") == "padded:-inf";
    out.overwrites_logits = contains(json, "overwrites", "logits");
    out.padding = {multiple(json, "sequence_multiple"), multiple(json, "pack_multiple")};
    out.serial_adds = static_cast<int>(multiple(json, "serial_adds", kSerialAddsOfLanes));
    out.rounds = read_words(json, "rounds");
    out.takes = read_words(json, "takes");
    out.has_chunks = json.value("has_chunks", false);
    out.has_supports = json.value("has_supports", false);
    out.has_cost = json.value("has_cost", false);
    out.options = json.value("options", std::map<std::string, std::string>());
    out.offers = json.value("offers", std::map<std::string, std::vector<nlohmann::json>>());
    out.details = json.value("details", std::map<std::string, std::string>());
  } catch (const nlohmann::json::exception& error) {
    throw_bad_input("a declaration that is not of the protocol: {}", error.what());
  }
  if (!out.returns_logprobs && !out.returns_loss) {
    throw_bad_input("'{}' returns neither log-probabilities nor a loss", out.name);
  }
  for (const auto& [option, values] : out.offers) {
    if (values.empty() || !out.options.contains(option)) {
      throw_bad_input("'{}' offers values of '{}', which is no option or has none", out.name,
                      option);
    }
  }
  return out;
}

}  // namespace lossgrid
