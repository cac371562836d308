// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/bundle/bundle_metadata.h"

#include <algorithm>
#include <vector>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/problem/case/checked_json.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "lossgrid.bundle/1";

const std::vector<std::string>& known_tensors() {
  static const std::vector<std::string> names{"cu_seqlens",
                                              "input_ids",
                                              "logits",
                                              "hidden",
                                              "weight",
                                              "bias",
                                              "token_mask",
                                              "sample_mask",
                                              "advantages",
                                              "prev_logprobs",
                                              "generation_logprobs",
                                              "reference_policy_logprobs",
                                              "teacher_logprobs",
                                              "returns",
                                              "old_values",
                                              "versions",
                                              "rewards",
                                              "temperatures",
                                              "teacher_logits",
                                              "teacher_hidden",
                                              "teacher_weight",
                                              "teacher_topk_ids",
                                              "teacher_topk_logits",
                                              "sampling_mask",
                                              "teacher_topk_logprobs",
                                              "expected.loss",
                                              "expected.logprobs",
                                              "expected.entropy",
                                              "expected.grad_logits",
                                              "expected.grad_hidden",
                                              "expected.grad_weight",
                                              "expected.grad_bias"};
  return names;
}

const std::vector<std::string>& known_metadata() {
  static const std::vector<std::string> keys{"format",
                                             "objective",
                                             "transform",
                                             "case",
                                             "pad_multiple",
                                             "bin_multiple",
                                             "global_valid_toks",
                                             "expected_metrics",
                                             "global_valid_seqs",
                                             "filtered_targets",
                                             "head"};
  return keys;
}

std::string metadata_text(const SafetensorsFile& file, const char* key) {
  const auto at = file.metadata().find(key);
  if (at == file.metadata().end())
    throw_bad_input("{}: __metadata__.{} is missing", file.path(), key);
  return at->second;
}

}  // namespace

void refuse_misspelt(const std::string& what, const std::string& name,
                     const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  const std::string nearest = nearest_name(name, known);
  if (nearest.empty()) return;
  throw_bad_input("{}: unknown name {}; did you mean '{}'?", what, printable(name), nearest);
}

void check_bundle_format(const SafetensorsFile& file) {
  const std::string format = metadata_text(file, "format");
  if (format != kFormat) {
    throw_bad_input("{}: __metadata__.format is {}, must be '{}'", file.path(), printable(format),
                    kFormat);
  }
  for (const auto& [key, value] : file.metadata()) {
    refuse_misspelt(file.path() + ": __metadata__", key, known_metadata());
  }
  for (const std::string& name : file.names()) {
    refuse_misspelt(file.path() + ": tensors", name, known_tensors());
  }
}

ObjectiveSpec read_bundle_objective(const SafetensorsFile& file) {
  const std::string what = file.path() + ": __metadata__.objective";
  const Json json = parse_json_object(metadata_text(file, "objective"), what, 8);
  ObjectiveSpec objective;
  objective.kind.clear();
  for (const auto& [key, value] : json.items()) {
    if (key == "kind") {
      if (!value.is_string()) throw_bad_input("{}: 'kind' is not a string", what);
      objective.kind = value.get<std::string>();
    } else if (value.is_structured()) {
      throw_bad_input("{}: {} is an object or array, must be a single value", what, printable(key));
    } else {
      objective.options[key] = value.dump();
    }
  }
  if (objective.kind.empty()) throw_bad_input("{}: 'kind' is missing or empty", what);
  return objective;
}

namespace {

/// Reads a factor of the transform; `fallback` if it is missing.
double transform_number(const Json& json, const char* key, const std::string& what,
                        double fallback) {
  const auto at = json.find(key);
  if (at == json.end() || at->is_null()) return fallback;
  if (!at->is_number()) throw_bad_input("{}: {} is not a number", what, key);
  const double value = at->get<double>();
  if (!(value >= 1e-3 && value <= 1e6)) {
    throw_bad_input("{}: {} = {} is outside [0.001, 1e6]", what, key, at->dump());
  }
  return value;
}

}  // namespace

void read_transform(const SafetensorsFile& file, CaseSpec& spec) {
  const auto at = file.metadata().find("transform");
  if (at == file.metadata().end()) return;
  const std::string what = file.path() + ": __metadata__.transform";
  const Json json = parse_json_object(at->second, what, 8);
  const std::vector<std::string> known{"logit_scale", "logit_softcap", "temperature"};
  for (const auto& [key, value] : json.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    throw_bad_input("{}: unknown name {}; there are {}", what, printable(key), join(known, ", "));
  }
  spec.logit_scale = transform_number(json, "logit_scale", what, 1);
  spec.logit_softcap = transform_number(json, "logit_softcap", what, 0);
  spec.temperature = transform_number(json, "temperature", what, 1);
}

std::string transform_text(const CaseSpec& spec) {
  Json json = Json::object();
  if (spec.logit_scale != 1) json["logit_scale"] = spec.logit_scale;
  if (spec.logit_softcap != 0) json["logit_softcap"] = spec.logit_softcap;
  if (spec.temperature != 1) json["temperature"] = spec.temperature;
  return json.empty() ? "" : json.dump();
}

void read_head(const SafetensorsFile& file, CaseSpec& spec) {
  const auto at = file.metadata().find("head");
  if (at == file.metadata().end()) return;
  const std::string what = file.path() + ": __metadata__.head";
  if (at->second != "lm" && at->second != "value" && at->second != "score") {
    throw_bad_input("{} is {}, must be lm, value or score", what, printable(at->second));
  }
  if (at->second == "lm") return;
  spec.head = at->second == "value" ? Head::value : Head::score;
  if (spec.vocab != 1) {
    throw_bad_input("{} is {}, which has one number a row, and there are {}", what, at->second,
                    spec.vocab);
  }
}

void read_filtered_targets(const SafetensorsFile& file, CaseSpec& spec) {
  const auto at = file.metadata().find("filtered_targets");
  if (at == file.metadata().end()) return;
  const std::string what = file.path() + ": __metadata__.filtered_targets";
  if (at->second != "drop" && at->second != "zero") {
    throw_bad_input("{} is {}, must be drop or zero", what, printable(at->second));
  }
  if (!file.has("sampling_mask"))
    throw_bad_input("{} is about a sampling_mask, there is none", what);
  if (at->second == "zero") spec.filtered_targets = FilteredTargets::zero;
}

std::int64_t read_global_count(const SafetensorsFile& file, const char* key, std::int64_t counted) {
  const auto at = file.metadata().find(key);
  if (at == file.metadata().end()) return 0;
  const std::string& text = at->second;
  const std::string what = fmt::format("{}: __metadata__.{}", file.path(), key);
  const bool decimal = !text.empty() && text.size() <= 18 &&
                       text.find_first_not_of("0123456789") == std::string::npos;
  if (!decimal) {
    throw_bad_input("{} is {}, must be a decimal number below 10^18", what, printable(text));
  }
  const std::int64_t given = parse_integer(text, what, 0, std::int64_t{1} << 62);
  if (given < counted) {
    throw_bad_input("{} = {} is less than the {} that the masks of this batch count", what, given,
                    counted);
  }
  return given;
}

std::int64_t read_multiple(const SafetensorsFile& file, const char* key) {
  const auto at = file.metadata().find(key);
  if (at == file.metadata().end()) return 1;
  constexpr std::int64_t kMost = std::int64_t{1} << 30;  // same limit as in a case
  return parse_integer(at->second, fmt::format("{}: __metadata__.{}", file.path(), key), 1, kMost);
}

std::string objective_text(const ObjectiveSpec& objective) {
  Json json;
  json["kind"] = objective.kind;
  for (const auto& [name, value] : objective.options) json[name] = Json::parse(value);
  return json.dump();
}

std::map<std::string, double> read_expected_metrics(const SafetensorsFile& file) {
  std::map<std::string, double> metrics;
  const auto at = file.metadata().find("expected_metrics");
  if (at == file.metadata().end()) return metrics;
  const std::string what = file.path() + ": __metadata__.expected_metrics";
  const Json json = parse_json_object(at->second, what, 8);
  for (const auto& [key, value] : json.items()) {
    if (value.is_null()) continue;  // a metric without a value is not compared
    if (!value.is_number()) throw_bad_input("{}: {} is not a number", what, printable(key));
    metrics[key] = value.get<double>();
  }
  return metrics;
}

}  // namespace lossgrid
