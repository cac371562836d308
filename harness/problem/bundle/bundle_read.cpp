// SPDX-License-Identifier: Apache-2.0
// Rules of a bundle's tensors, one function for each part of the file.
#include <algorithm>
#include <filesystem>
#include <functional>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/problem/batch/case_data.h"
#include "harness/problem/bundle/bundle.h"
#include "harness/problem/bundle/bundle_metadata.h"
#include "harness/problem/bundle/bundle_teacher.h"
#include "harness/problem/bundle/bundle_tensors.h"
#include "harness/problem/case/case_keys.h"

namespace lossgrid {
namespace {

constexpr std::int64_t kMaxInt32 = 2'147'483'647;

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
  if (lengths.empty()) {  // an empty list has no text form
    problem.spec.lens = "uniform";
    problem.spec.seqs = 0;
  } else {
    problem.spec.lens = join(lengths, "+");
  }
}

void read_ids(const BundleTensors& tensors, Problem& problem) {
  std::vector<std::int64_t> ids = tensors.integers("input_ids", {"I32", "I64"}, 1);
  // A head without a vocabulary predicts no ids.
  if (problem.spec.head != Head::lm) std::fill(ids.begin(), ids.end(), 0);
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

void read_plain_logits(const BundleTensors& tensors, Bundle& bundle) {
  Problem& problem = bundle.problem;
  const TensorView view = tensors.require("logits", {"F32", "BF16", "F64"}, 2);
  tensors.require("logits", {view.dtype}, {problem.tokens(), view.shape[1]}, "[T, V]");
  require_vocab(tensors, "logits", view.shape[1]);
  problem.spec.vocab = view.shape[1];
  problem.spec.dtype = dtype_of_tensor(view.dtype);
  problem.logits = make_bundle_logits(tensors.file(), "logits");
  bundle.nan_or_inf_logits = count_nan_or_inf(view);
}

/// Appends column(row) to the columns of a factor [rows, size].
std::vector<float> with_column(const std::vector<float>& factor, std::int64_t size,
                               const std::function<float(std::int64_t)>& column) {
  std::vector<float> wider;
  wider.reserve(factor.size() + factor.size() / static_cast<std::size_t>(size));
  const auto rows = static_cast<std::int64_t>(factor.size()) / size;
  for (std::int64_t row = 0; row < rows; ++row) {
    wider.insert(wider.end(), factor.begin() + row * size, factor.begin() + (row + 1) * size);
    wider.push_back(column(row));
  }
  return wider;
}

/// Reads the bias of the lm_head, if the file has one.
void read_bias(const BundleTensors& tensors, Projection& projection) {
  if (!tensors.has("bias")) return;
  const TensorView view = tensors.require("bias", {"F32", "BF16"}, 1);
  tensors.require("bias", {view.dtype}, {projection.vocab}, "[V]");
  const std::vector<float> bias = elements_as_float(view);
  projection.has_bias = true;
  projection.bias_dtype = dtype_of_tensor(view.dtype);
  projection.hidden =
      with_column(projection.hidden, projection.size, [](std::int64_t) { return 1.0f; });
  projection.weight = with_column(projection.weight, projection.size, [&](std::int64_t id) {
    return bias[static_cast<std::size_t>(id)];
  });
}

void read_projection(const BundleTensors& tensors, Bundle& bundle) {
  Problem& problem = bundle.problem;
  const TensorView hidden = tensors.require("hidden", {"F32", "BF16"}, 2);
  const std::int64_t size = hidden.shape[1];
  tensors.require("hidden", {hidden.dtype}, {problem.tokens(), size}, "[T, H]");
  if (size < 1 || size > kMaxHidden) {
    throw_bad_input("{}: a hidden size of {}, must lie in [1, {}]", tensors.what("hidden"), size,
                    kMaxHidden);
  }
  const TensorView weight = tensors.require("weight", {"F32", "BF16"}, 2);
  const std::int64_t vocab = weight.shape[0];
  tensors.require("weight", {weight.dtype}, {vocab, size}, "[V, H]");
  require_vocab(tensors, "weight", vocab);
  checked_product(problem.tokens(), vocab, tensors.file().path() + ": tokens x vocab");
  problem.spec.vocab = vocab;
  problem.spec.hidden = size;
  Projection projection;
  projection.tokens = problem.tokens();
  projection.vocab = vocab;
  projection.size = size;
  projection.hidden = elements_as_float(hidden);
  projection.weight = elements_as_float(weight);
  read_bias(tensors, projection);
  problem.spec.lm_head_bias = projection.has_bias;
  projection.temperature = divisor_of_product(problem.transform());
  projection.hidden_dtype = dtype_of_tensor(hidden.dtype);
  projection.weight_dtype = dtype_of_tensor(weight.dtype);
  // Ranks hold all three in one dtype; float32 holds bf16 values exactly.
  const bool all_bf16 = projection.hidden_dtype == DType::bf16 &&
                        projection.weight_dtype == DType::bf16 &&
                        (!projection.has_bias || projection.bias_dtype == DType::bf16);
  problem.spec.dtype = all_bf16 ? DType::bf16 : DType::f32;
  problem.projection = std::make_shared<const Projection>(std::move(projection));
  problem.logits = make_projected_logits(problem.projection);
  std::vector<float> row(static_cast<std::size_t>(vocab));  // logits as implementations make them
  for (std::int64_t t = 0; t < problem.tokens(); ++t) {
    problem.logits->read(t, 0, std::span<float>(row));
    bundle.nan_or_inf_logits +=
        std::count_if(row.begin(), row.end(), [](float logit) { return is_nan_or_inf(logit); });
  }
}

/// Sets the source of the logits, vocab and dtype.
void read_logits(const BundleTensors& tensors, Bundle& bundle) {
  const std::string& path = tensors.file().path();
  const bool linear = tensors.has("hidden") || tensors.has("weight");
  if (tensors.has("bias") && !linear) {
    throw_bad_input("{}: it holds bias without hidden and weight", path);
  }
  if (tensors.has("logits") && linear) {
    throw_bad_input("{}: it holds logits as well as hidden or weight, must hold one of them", path);
  }
  if (linear) return read_projection(tensors, bundle);
  if (!tensors.has("logits")) {
    throw_bad_input("{}: tensor \"logits\" is missing (nor are there hidden and weight)", path);
  }
  read_plain_logits(tensors, bundle);
}

/// Reads the temperatures of sequences, if the file has any.
void read_temperatures(const BundleTensors& tensors, Problem& problem) {
  if (!tensors.has("temperatures")) return;
  problem.temperatures = tensors.floats("temperatures", {problem.sequences()}, "[S]");
  for (std::size_t i = 0; i < problem.temperatures.size(); ++i) {
    const float value = problem.temperatures[i];
    if (value >= 1e-3f && value <= 1e6f) continue;
    throw_bad_input("{}: {} at index {}, must lie in [0.001, 1e6]", tensors.what("temperatures"),
                    value, i);
  }
  problem.spec.sequence_temperatures = true;
}

std::string bits_text(const std::vector<std::uint8_t>& bits, std::int64_t begin, std::int64_t end) {
  std::string text;
  for (std::int64_t k = begin; k < end; ++k) text += bits[k] != 0 ? '1' : '0';
  return text;
}

/// Throws for a row that keeps no id and predicts a trained token; other rows may keep no id.
void require_kept_ids(const std::string& what, const Problem& problem, const SamplingMask& mask) {
  const std::vector<std::uint8_t> valid = problem.row_valid();
  for (std::int64_t t = 0; t < problem.tokens(); ++t) {
    if (valid[t] == 0 || mask.keeps_any(t)) continue;
    throw_bad_input("{}: row {}, whose next token is trained on, has no 1, must have one at least",
                    what, t);
  }
}

/// Reads the kept sets of rows, if the file has them. Masks must have been read.
void read_sampling_mask(const BundleTensors& tensors, Problem& problem) {
  read_filtered_targets(tensors.file(), problem.spec);
  if (!tensors.has("sampling_mask")) return;
  const std::int64_t vocab = problem.spec.vocab;
  const std::string what = tensors.what("sampling_mask");
  const TensorView view =
      tensors.require("sampling_mask", {"U8"}, {problem.tokens(), vocab}, "[T, V]");
  auto mask = std::make_shared<SamplingMask>(problem.tokens(), vocab);
  for (std::int64_t t = 0; t < problem.tokens(); ++t) {
    for (std::int64_t v = 0; v < vocab; ++v) {
      const int bit = view.at<std::uint8_t>(t * vocab + v);
      if (bit > 1) throw_bad_input("{}: {} at index [{}, {}], must be 0 or 1", what, bit, t, v);
      if (bit == 1) mask->keep(t, v);
    }
  }
  require_kept_ids(what, problem, *mask);
  set_sampling_mask(problem, std::move(mask));
}

void read_masks(const BundleTensors& tensors, Problem& problem) {
  const std::int64_t sequences = problem.sequences();
  problem.token_mask = tensors.bits("token_mask", problem.tokens(), "[T]");
  if (problem.spec.head == Head::score) keep_last_tokens(problem.cu_seqlens, problem.token_mask);
  problem.sample_mask.assign(static_cast<std::size_t>(sequences), 1);
  if (tensors.has("sample_mask")) {
    problem.sample_mask = tensors.bits("sample_mask", sequences, "[S]");
  }
  read_sampling_mask(tensors, problem);
  if (sequences == 0) return;
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < problem.lengths.size(); ++i) {
    parts.push_back(
        bits_text(problem.token_mask, problem.cu_seqlens[i], problem.cu_seqlens[i + 1]));
  }
  problem.spec.mask = join(parts, "+");
  problem.spec.sample_mask = bits_text(problem.sample_mask, 0, sequences);
}

void read_denominators(const SafetensorsFile& file, Problem& problem) {
  CaseSpec uncounted;
  uncounted.head = problem.spec.head;
  const Denominators counted =
      case_denominators(uncounted, problem.cu_seqlens, problem.token_mask, problem.sample_mask);
  CaseSpec& spec = problem.spec;
  spec.global_valid_toks = read_global_count(file, "global_valid_toks", counted.valid_tokens);
  spec.global_valid_seqs = read_global_count(file, "global_valid_seqs", counted.valid_sequences);
  problem.denominators =
      case_denominators(spec, problem.cu_seqlens, problem.token_mask, problem.sample_mask);
}

/// Reads the inputs of all objectives, even if the bundle's objective does not need them, finite or
/// not.
void read_inputs(const BundleTensors& tensors, Problem& problem) {
  for (int k = 0; k < kTokenInputs; ++k) {
    const std::string_view tensor = name(static_cast<TokenInput>(k));
    if (!tensors.has(tensor)) continue;
    problem.inputs[k] = is_whole_number(static_cast<TokenInput>(k))
                            ? tensors.whole_numbers(tensor, problem.tokens(), "[T]")
                            : tensors.floats(tensor, {problem.tokens()}, "[T]");
  }
  if (tensors.has("rewards")) {
    problem.rewards = tensors.floats("rewards", {problem.sequences()}, "[S]");
  }
}

/// Reads a tensor [T] that is 0 at first tokens.
std::vector<double> read_about_tokens(const BundleTensors& tensors, const Problem& problem,
                                      const char* name) {
  std::vector<double> values = tensors.doubles(name, {problem.tokens()}, "[T]", true);
  for (std::size_t i = 0; i < problem.lengths.size(); ++i) {
    const std::int64_t first = problem.cu_seqlens[i];
    if (problem.lengths[i] > 0 && values[first] != 0) {
      throw_bad_input("{}: {} at index {}, must be 0 at the first token of a sequence",
                      tensors.what(name), values[first], first);
    }
  }
  return values;
}

std::optional<BundleResults> read_expected(const BundleTensors& tensors, const Problem& problem) {
  const std::vector<std::string> names = tensors.file().names();
  const bool any = std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return name.starts_with("expected.");
  });
  if (!any && !tensors.file().metadata().contains("expected_metrics")) return std::nullopt;
  const std::int64_t tokens = problem.tokens();
  const std::int64_t vocab = problem.spec.vocab;
  BundleResults expected;
  expected.metrics = read_expected_metrics(tensors.file());
  expected.loss = tensors.doubles("expected.loss", {1}, "[1]", false)[0];
  expected.logprobs = read_about_tokens(tensors, problem, "expected.logprobs");
  if (tensors.has("expected.entropy")) {
    expected.entropy = read_about_tokens(tensors, problem, "expected.entropy");
  }
  if (problem.projection == nullptr) {
    expected.grad_logits =
        tensors.doubles("expected.grad_logits", {tokens, vocab}, "[T, V]", false);
  } else {
    const std::int64_t size = problem.projection->size;
    expected.grad_hidden = tensors.doubles("expected.grad_hidden", {tokens, size}, "[T, H]", false);
    expected.grad_weight = tensors.doubles("expected.grad_weight", {vocab, size}, "[V, H]", false);
    if (problem.projection->has_bias) {
      expected.grad_bias = tensors.doubles("expected.grad_bias", {vocab}, "[V]", false);
    }
  }
  return expected;
}

}  // namespace

Bundle read_bundle(const std::string& path) {
  const BundleTensors tensors(SafetensorsFile::read(path));
  Bundle bundle;
  Problem& problem = bundle.problem;
  problem.source = FromBundle{path};
  problem.spec.name = std::filesystem::path(path).stem().string();
  problem.spec.poison = Poison::nan;
  problem.poison_true_rows = false;
  check_bundle_format(tensors.file());
  problem.spec.objective = read_bundle_objective(tensors.file());
  read_lengths(tensors, problem);
  read_transform(tensors.file(), problem.spec);
  read_temperatures(tensors, problem);
  read_logits(tensors, bundle);
  read_head(tensors.file(), problem.spec);
  apply_transform(problem);
  read_ids(tensors, problem);
  read_bundle_teacher(tensors, problem);
  read_masks(tensors, problem);
  read_denominators(tensors.file(), problem);
  problem.spec.pad_multiple = read_multiple(tensors.file(), "pad_multiple");
  problem.spec.bin_multiple = read_multiple(tensors.file(), "bin_multiple");
  read_inputs(tensors, problem);
  bundle.expected = read_expected(tensors, problem);
  return bundle;
}

}  // namespace lossgrid
