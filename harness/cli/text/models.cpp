// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/text/models.h"

#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include "harness/core/error.h"
#include "harness/core/file.h"
#include "harness/core/text.h"
#include "harness/problem/case/case_keys.h"
#include "harness/problem/case/checked_json.h"
#include "harness/problem/case/suite.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;

/// Returns entry[key], a whole number from 1 to `most`.
std::int64_t size_member(const Json& entry, const char* key, std::int64_t most,
                         const std::string& where) {
  const auto at = entry.find(key);
  if (at == entry.end() || !at->is_number_integer() || *at < 1 || *at > most) {
    throw_bad_input("{}: {} is not a whole number in [1, {}]", where, key, most);
  }
  return at->get<std::int64_t>();
}

/// Returns entry[key], a text that is not empty.
std::string text_member(const Json& entry, const char* key, const std::string& where) {
  const auto at = entry.find(key);
  if (at == entry.end() || !at->is_string() || at->get<std::string>().empty()) {
    throw_bad_input("{}: {} is not a text", where, key);
  }
  return at->get<std::string>();
}

}  // namespace

std::vector<ModelShape> load_models() {
  const std::string path = cases_directory() + "/models.json";
  const Json file = parse_json_object(read_text_file(path), path, 3);
  if (file.value("models", Json()) != 1 || !file.contains("entries") ||
      !file.at("entries").is_array()) {
    throw_bad_input("{}: not models of version 1 with an array of entries", path);
  }
  std::vector<ModelShape> models;
  for (const auto& entry : file.at("entries")) {
    const std::string where = fmt::format("{}: entries[{}]", path, models.size());
    if (!entry.is_object()) throw_bad_input("{} is not an object", where);
    models.push_back({text_member(entry, "name", where),
                      size_member(entry, "hidden", kMaxHidden, where),
                      size_member(entry, "vocab", std::numeric_limits<std::int32_t>::max(), where),
                      text_member(entry, "source", where)});
  }
  return models;
}

ModelShape find_model(const std::string& name) {
  const std::vector<ModelShape> models = load_models();
  const auto found = std::find_if(models.begin(), models.end(),
                                  [&](const ModelShape& model) { return model.name == name; });
  if (found != models.end()) return *found;
  std::vector<std::string> known;
  for (const ModelShape& model : models) known.push_back(model.name);
  throw Error(ErrorCode::bad_input, unknown_name_message("model", name, known));
}

}  // namespace lossgrid
