// SPDX-License-Identifier: Apache-2.0
// The rules of bundles, one function a part of the file.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/problem/bundle.h"
#include "harness/problem/bundle_tensors.h"
#include "harness/problem/case_data.h"
#include "harness/problem/checked_json.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "lossgrid.bundle/1";
constexpr std::int64_t kMaxInt32 = 2'147'483'647;

const std::vector<std::string>& known_tensors() {
  static const std::vector<std::string> names{"cu_seqlens",
                                              "input_ids",
                                              "logits",
                                              "hidden",
                                              "weight",
                                              "token_mask",
                                              "sample_mask",
                                              "advantages",
                                              "prev_logprobs",
                                              "generation_logprobs",
                                              "reference_policy_logprobs",
                                              "rewards",
                                              "expected.loss",
                                              "expected.logprobs",
                                              "expected.grad_logits",
                                              "expected.grad_hidden",
                                              "expected.grad_weight"};
  return names;
}

const std::vector<std::string>& known_metadata() {
  static const std::vector<std::string> keys{"format", "objective", "global_valid_toks",
                                             "global_valid_seqs", "expected_metrics"};
  return keys;
}

/// A file may hold more than the format says, but a misspelt optional name would change results
/// without a word.
void refuse_misspelt(const std::string& what, const std::string& name,
                     const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  const std::string nearest = nearest_name(name, known);
  if (nearest.empty()) return;
  throw_bad_input("{}: unknown name {}; did you mean '{}'?", what, printable(name), nearest);
}

std::string metadata_of(const SafetensorsFile& file, const char* key) {
  const auto at = file.metadata().find(key);
  if (at == file.metadata().end())
    throw_bad_input("{}: __metadata__.{} is missing", file.path(), key);
  return at->second;
}

void read_format(const SafetensorsFile& file) {
  const std::string format = metadata_of(file, "format");
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

ObjectiveSpec read_objective(const SafetensorsFile& file) {
  const std::string what = file.path() + ": __metadata__.objective";
  const Json json = parse_json_object(metadata_of(file, "objective"), what, 8);
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

void read_lengths(const BundleTensors& tensors, Problem& problem) {
  const std::int64_t tokens = tensors.require("input_ids", {"I32", "I64"}, 1).shape[0];
  const std::string what = tensors.what("cu_seqlens");
  problem.cu_seqlens = tensors.integers("cu_seqlens", {"I32"}, 1);
  const std::vector<std::int64_t>& cu = problem.cu_seqlens;
  if (cu.empty()) throw_bad_input("{}: it is empty, must be [S + 1]", what);
  if (tokens > kMaxInt32) {
    throw_bad_input("{}: {} tokens, more than {}", tensors.what("input_ids"), tokens, kMaxInt32);
  }
  if (cu[0] != 0) throw_bad_input("{}: {} at index 0, must start at 0", what, cu[0]);
  std::vector<std::string> lengths;
  for (std::size_t i = 1; i < cu.size(); ++i) {
    if (cu[i] < cu[i - 1]) {
      throw_bad_input("{}: {} at index {} after {}, must never decrease", what, cu[i], i,
                      cu[i - 1]);
    }
    problem.lengths.push_back(cu[i] - cu[i - 1]);
    lengths.push_back(std::to_string(problem.lengths.back()));
  }
  if (cu.back() != tokens) {
    throw_bad_input("{}: {} at index {}, must end at T = {} (input_ids)", what, cu.back(),
                    cu.size() - 1, tokens);
  }
  if (lengths.empty()) {  // no text form of lengths says "none"
    problem.spec.lens = "uniform";
    problem.spec.seqs = 0;
  } else {
    problem.spec.lens = join(lengths, "+");
  }
}

void read_ids(const BundleTensors& tensors, Problem& problem) {
  const std::vector<std::int64_t> ids = tensors.integers("input_ids", {"I32", "I64"}, 1);
  problem.input_ids.reserve(ids.size());
  for (std::size_t t = 0; t < ids.size(); ++t) {
    if (ids[t] < 0 || ids[t] >= problem.spec.vocab) {
      throw_bad_input("{}: id {} at index {}, must lie in [0, V = {})", tensors.what("input_ids"),
                      ids[t], t, problem.spec.vocab);
    }
    problem.input_ids.push_back(static_cast<std::int32_t>(ids[t]));
  }
}

void require_vocab(const BundleTensors& tensors, const char* name, std::int64_t vocab) {
  if (vocab < 1 || vocab > kMaxInt32) {
    throw_bad_input("{}: a vocabulary of {}, must lie in [1, {}]", tensors.what(name), vocab,
                    kMaxInt32);
  }
}

/// Where the logits come from; sets vocab and dtype.
void read_logits(const BundleTensors& tensors, Bundle& bundle) {
  Problem& problem = bundle.problem;
  const std::string& path = tensors.file().path();
  const bool linear = tensors.has("hidden") || tensors.has("weight");
  if (tensors.has("logits") && linear) {
    throw_bad_input("{}: it holds logits as well as hidden or weight, must hold one of them", path);
  }
  if (!linear) {
    if (!tensors.has("logits")) {
      throw_bad_input("{}: tensor \"logits\" is missing (nor are there hidden and weight)", path);
    }
    const TensorView& view = tensors.require("logits", {"F32", "BF16", "F64"}, 2);
    tensors.require("logits", {view.dtype}, {problem.tokens(), view.shape[1]}, "[T, V]");
    require_vocab(tensors, "logits", view.shape[1]);
    problem.spec.vocab = view.shape[1];
    problem.spec.dtype = dtype_of_tensor(view.dtype);
    problem.logits = make_bundle_logits(tensors.file(), "logits");
    bundle.nan_or_inf_logits = count_nan_or_inf(view);
    return;
  }
  const TensorView& hidden = tensors.require("hidden", {"F32", "BF16"}, 2);
  const std::int64_t size = hidden.shape[1];
  tensors.require("hidden", {hidden.dtype}, {problem.tokens(), size}, "[T, H]");
  const TensorView& weight = tensors.require("weight", {"F32", "BF16"}, 2);
  tensors.require("weight", {weight.dtype}, {weight.shape[0], size}, "[V, H]");
  require_vocab(tensors, "weight", weight.shape[0]);
  problem.spec.vocab = weight.shape[0];
  problem.spec.dtype = dtype_of_tensor(hidden.dtype);
  problem.why_no_logits = "the bundle holds hidden states and a weight";
}

std::string bits_text(const std::vector<std::uint8_t>& bits, std::int64_t begin, std::int64_t end) {
  std::string text;
  for (std::int64_t k = begin; k < end; ++k) text += bits[k] != 0 ? '1' : '0';
  return text;
}

void read_masks(const BundleTensors& tensors, Problem& problem) {
  const std::int64_t sequences = problem.sequences();
  problem.token_mask = tensors.bits("token_mask", problem.tokens(), "[T]");
  problem.sample_mask.assign(static_cast<std::size_t>(sequences), 1);
  if (tensors.has("sample_mask")) {
    problem.sample_mask = tensors.bits("sample_mask", sequences, "[S]");
  }
  if (sequences == 0) return;
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < problem.lengths.size(); ++i) {
    parts.push_back(
        bits_text(problem.token_mask, problem.cu_seqlens[i], problem.cu_seqlens[i + 1]));
  }
  problem.spec.mask = join(parts, "+");
  problem.spec.sample_mask = bits_text(problem.sample_mask, 0, sequences);
}

/// Of the global batch, or counted from the masks when the key is absent.
std::int64_t read_denominator(const SafetensorsFile& file, const char* key, std::int64_t counted,
                              std::int64_t& in_spec) {
  const auto at = file.metadata().find(key);
  if (at == file.metadata().end()) return counted;
  const std::string& text = at->second;
  const std::string what = fmt::format("{}: __metadata__.{}", file.path(), key);
  const bool decimal = !text.empty() && text.size() <= 18 &&
                       text.find_first_not_of("0123456789") == std::string::npos;
  if (!decimal) {
    throw_bad_input("{} is {}, must be a decimal number below 10^18", what, printable(text));
  }
  in_spec = parse_integer(text, what, 0, std::int64_t{1} << 62);
  if (in_spec < counted) {
    throw_bad_input("{} = {} is less than the {} that the masks of this batch count", what, in_spec,
                    counted);
  }
  return in_spec;
}

void read_denominators(const SafetensorsFile& file, Problem& problem) {
  const Denominators counted =
      case_denominators(CaseSpec(), problem.cu_seqlens, problem.token_mask, problem.sample_mask);
  problem.denominators.valid_tokens = read_denominator(
      file, "global_valid_toks", counted.valid_tokens, problem.spec.global_valid_toks);
  problem.denominators.valid_sequences = read_denominator(
      file, "global_valid_seqs", counted.valid_sequences, problem.spec.global_valid_seqs);
}

/// What other objectives need: right shapes, nothing more.
void check_other_inputs(const BundleTensors& tensors, const Problem& problem) {
  for (const char* name :
       {"advantages", "prev_logprobs", "generation_logprobs", "reference_policy_logprobs"}) {
    if (tensors.has(name)) tensors.require(name, {"F32"}, {problem.tokens()}, "[T]");
  }
  if (tensors.has("rewards")) {
    tensors.require("rewards", {"F32"}, {problem.sequences()}, "[S]");
  }
}

std::map<std::string, double> read_metrics(const SafetensorsFile& file) {
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

std::optional<BundleResults> read_expected(const BundleTensors& tensors, const Problem& problem) {
  const std::vector<std::string> names = tensors.file().names();
  const bool any = std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return name.starts_with("expected.");
  });
  if (!any && tensors.file().metadata().count("expected_metrics") == 0) return std::nullopt;
  const std::int64_t tokens = problem.tokens();
  const std::int64_t vocab = problem.spec.vocab;
  BundleResults expected;
  expected.metrics = read_metrics(tensors.file());
  expected.loss = tensors.doubles("expected.loss", {1}, "[1]", false)[0];
  expected.logprobs = tensors.doubles("expected.logprobs", {tokens}, "[T]", true);
  for (std::size_t i = 0; i < problem.lengths.size(); ++i) {
    const std::int64_t first = problem.cu_seqlens[i];
    if (problem.lengths[i] > 0 && expected.logprobs[first] != 0) {
      throw_bad_input("{}: {} at index {}, must be 0 at the first token of a sequence",
                      tensors.what("expected.logprobs"), expected.logprobs[first], first);
    }
  }
  if (problem.logits != nullptr) {
    expected.grad_logits =
        tensors.doubles("expected.grad_logits", {tokens, vocab}, "[T, V]", false);
  } else {
    const std::int64_t size = tensors.file().tensor("hidden").shape[1];
    tensors.require("expected.grad_hidden", {"F64"}, {tokens, size}, "[T, H]");
    tensors.require("expected.grad_weight", {"F64"}, {vocab, size}, "[V, H]");
  }
  return expected;
}

}  // namespace

Bundle read_bundle(const std::string& path) {
  const BundleTensors tensors(SafetensorsFile::read(path));
  Bundle bundle;
  Problem& problem = bundle.problem;
  problem.source = path;
  problem.spec.name = std::filesystem::path(path).stem().string();
  problem.spec.poison = Poison::nan;
  problem.poison_true_rows = false;
  read_format(tensors.file());
  problem.spec.objective = read_objective(tensors.file());
  read_lengths(tensors, problem);
  read_logits(tensors, bundle);
  read_ids(tensors, problem);
  read_masks(tensors, problem);
  read_denominators(tensors.file(), problem);
  check_other_inputs(tensors, problem);
  bundle.expected = read_expected(tensors, problem);
  return bundle;
}

}  // namespace lossgrid
