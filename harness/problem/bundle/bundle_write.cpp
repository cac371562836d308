// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>
#include <limits>

#include <nlohmann/json.hpp>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/problem/bundle/bundle.h"
#include "harness/problem/bundle/bundle_metadata.h"
#include "harness/problem/bundle/bundle_tensors.h"
#include "harness/problem/bundle/safetensors.h"
#include "harness/problem/case/case_keys.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;

TensorToWrite logits_tensor(const char* name, const Problem& problem, const LogitsSource& logits,
                            DType dtype) {
  const std::int64_t tokens = problem.tokens();
  const std::int64_t vocab = problem.spec.vocab;
  TensorToWrite tensor{name, std::string(tensor_dtype(dtype)), {tokens, vocab}, {}};
  const auto width = static_cast<std::size_t>(vocab);
  tensor.data.resize(static_cast<std::size_t>(tokens) * width * size_of(dtype));
  dispatch_floating(dtype, [&](auto element) {
    using T = decltype(element);
    // bf16 values are exact in float; float32 bits are unchanged.
    using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
    std::vector<Wide> row(width);
    std::byte* next = tensor.data.data();
    for (std::int64_t t = 0; t < tokens; ++t) {
      logits.read(t, 0, std::span<Wide>(row));
      for (const Wide value : row) {
        const T stored = static_cast<T>(value);
        std::memcpy(next, &stored, sizeof(T));
        next += sizeof(T);
      }
    }
  });
  return tensor;
}

/// Returns a factor of the logits in the dtype in which it was read, which holds its values
/// exactly.
TensorToWrite factor_tensor(const char* name, const std::vector<std::int64_t>& shape, DType dtype,
                            const std::vector<float>& values) {
  if (dtype == DType::bf16) return make_tensor<bf16>(name, shape, values);
  return make_tensor<float>(name, shape, values);
}

/// Adds the logits of a teacher, either all or those other than -inf with their ids; or its hidden
/// states and weight.
void add_teacher(const Problem& problem, std::vector<TensorToWrite>& tensors) {
  if (problem.given_teacher == nullptr) return;
  if (problem.teacher_projection != nullptr) {
    const Projection& p = *problem.teacher_projection;
    tensors.push_back(
        factor_tensor("teacher_hidden", {p.tokens, p.size}, p.hidden_dtype, p.hidden));
    tensors.push_back(factor_tensor("teacher_weight", {p.vocab, p.size}, p.weight_dtype, p.weight));
    return;
  }
  const std::int64_t k = problem.spec.teacher_topk;
  if (k == 0) {
    tensors.push_back(
        logits_tensor("teacher_logits", problem, *problem.given_teacher, problem.teacher_dtype));
    return;
  }
  std::vector<std::int32_t> ids;
  std::vector<float> values;
  std::vector<float> row(static_cast<std::size_t>(problem.spec.vocab));
  for (std::int64_t t = 0; t < problem.tokens(); ++t) {
    problem.given_teacher->read(t, 0, std::span<float>(row));
    const auto end = static_cast<std::int64_t>(values.size()) + k;
    for (const bool is_sent : {true, false}) {  // ids that fill up a row have no probability
      for (std::size_t v = 0; v < row.size(); ++v) {
        if (static_cast<std::int64_t>(values.size()) == end) break;
        if ((row[v] != -std::numeric_limits<float>::infinity()) != is_sent) continue;
        ids.push_back(static_cast<std::int32_t>(v));
        values.push_back(row[v]);
      }
    }
  }
  tensors.push_back(make_tensor<std::int32_t>("teacher_topk_ids", {problem.tokens(), k}, ids));
  const char* name =
      problem.teacher_sends_logprobs ? "teacher_topk_logprobs" : "teacher_topk_logits";
  tensors.push_back(make_tensor<float>(name, {problem.tokens(), k}, values));
}

/// Adds the kept sets of rows, if the problem has them.
void add_sampling_mask(const Problem& problem, std::vector<TensorToWrite>& tensors) {
  if (problem.sampling_mask == nullptr) return;
  const std::int64_t vocab = problem.spec.vocab;
  TensorToWrite tensor{"sampling_mask", "U8", {problem.tokens(), vocab}, {}};
  for (std::int64_t t = 0; t < problem.tokens(); ++t) {
    for (std::int64_t v = 0; v < vocab; ++v) {
      tensor.data.push_back(problem.sampling_mask->keeps(t, v) ? std::byte{1} : std::byte{0});
    }
  }
  tensors.push_back(std::move(tensor));
}

Json metrics_json(const BundleResults& results) {
  Json json = Json::object();
  for (const auto& [name, value] : results.metrics) {
    json[name] = std::isfinite(value) ? Json(value) : Json(nullptr);
  }
  return json;
}

TensorToWrite matrix_tensor(const std::string& name, std::int64_t rows, std::int64_t columns,
                            const std::vector<double>& values) {
  if (static_cast<std::int64_t>(values.size()) != rows * columns) {
    throw Error(ErrorCode::internal, fmt::format("{} of {} elements, must be [{}, {}]", name,
                                                 values.size(), rows, columns));
  }
  return make_tensor<double>(name, {rows, columns}, values);
}

TensorToWrite vector_tensor(const std::string& name, std::int64_t size,
                            const std::vector<double>& values) {
  if (static_cast<std::int64_t>(values.size()) != size) {
    throw Error(ErrorCode::internal,
                fmt::format("{} of {} elements, must be [{}]", name, values.size(), size));
  }
  return make_tensor<double>(name, {size}, values);
}

/// Adds loss, log-probabilities and entropies, if present.
void add_results(const std::string& prefix, std::int64_t tokens, const BundleResults& results,
                 std::vector<TensorToWrite>& tensors) {
  const auto add = [&](const char* name, std::int64_t size, const std::vector<double>& values) {
    if (static_cast<std::int64_t>(values.size()) != size) return;
    tensors.push_back(make_tensor<double>(prefix + name, {size}, values));
  };
  if (results.loss) add("loss", 1, {*results.loss});
  add("logprobs", tokens, results.logprobs);
  if (!results.entropy.empty()) add("entropy", tokens, results.entropy);
}

void add_expected(const Problem& problem, const BundleResults& expected,
                  std::vector<TensorToWrite>& tensors) {
  const std::int64_t tokens = problem.tokens();
  const std::int64_t vocab = problem.spec.vocab;
  add_results("expected.", tokens, expected, tensors);
  if (problem.projection == nullptr) {
    tensors.push_back(matrix_tensor("expected.grad_logits", tokens, vocab, expected.grad_logits));
    return;
  }
  const std::int64_t size = problem.projection->size;
  tensors.push_back(matrix_tensor("expected.grad_hidden", tokens, size, expected.grad_hidden));
  tensors.push_back(matrix_tensor("expected.grad_weight", vocab, size, expected.grad_weight));
  if (problem.projection->has_bias) {
    tensors.push_back(vector_tensor("expected.grad_bias", vocab, expected.grad_bias));
  }
}

/// Returns columns [begin, end) of a factor of the logits.
std::vector<float> slice_columns(const std::vector<float>& factor, std::int64_t factors,
                                 std::int64_t begin, std::int64_t end) {
  std::vector<float> columns;
  for (std::size_t row = 0; row < factor.size(); row += static_cast<std::size_t>(factors)) {
    const float* first = factor.data() + row;
    columns.insert(columns.end(), first + begin, first + end);
  }
  return columns;
}

void add_logits(const Problem& problem, std::vector<TensorToWrite>& tensors) {
  if (problem.projection == nullptr) {
    tensors.push_back(logits_tensor("logits", problem, problem.given_logits(), problem.spec.dtype));
    return;
  }
  const Projection& p = *problem.projection;
  const auto columns = [&p](const std::vector<float>& factor, std::int64_t begin,
                            std::int64_t end) {
    return slice_columns(factor, p.factors(), begin, end);
  };
  tensors.push_back(
      factor_tensor("hidden", {p.tokens, p.size}, p.hidden_dtype, columns(p.hidden, 0, p.size)));
  tensors.push_back(
      factor_tensor("weight", {p.vocab, p.size}, p.weight_dtype, columns(p.weight, 0, p.size)));
  if (!p.has_bias) return;
  tensors.push_back(
      factor_tensor("bias", {p.vocab}, p.bias_dtype, columns(p.weight, p.size, p.factors())));
}

void add_inputs(const Problem& problem, std::vector<TensorToWrite>& tensors) {
  const auto without_poison = [](float value, bool trained) {
    return trained || std::isfinite(value) ? value : 0.0f;
  };
  const std::vector<std::uint8_t> valid = problem.row_valid();
  for (int k = 0; k < kTokenInputs; ++k) {
    std::vector<float> values = problem.inputs[k];
    if (values.empty()) continue;
    const auto ahead = static_cast<std::size_t>(problem.ahead());
    for (std::size_t t = 0; t < values.size(); ++t) {
      values[t] = without_poison(values[t], t >= ahead && valid[t - ahead] != 0);
    }
    const auto input = static_cast<TokenInput>(k);
    const std::string tensor(name(input));
    tensors.push_back(is_whole_number(input)
                          ? make_tensor<std::int32_t>(tensor, {problem.tokens()}, values)
                          : make_tensor<float>(tensor, {problem.tokens()}, values));
  }
  std::vector<float> rewards = problem.rewards;
  if (rewards.empty()) return;
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    rewards[i] = without_poison(rewards[i], problem.sample_mask[i] != 0);
  }
  tensors.push_back(make_tensor<float>("rewards", {problem.sequences()}, rewards));
}

/// Throws for a case whose logits are not the plain product of the tensors, which is all that a
/// bundle can hold.
void require_expressible(const std::string& path, const CaseSpec& spec) {
  if (spec.tied_embedding) {
    throw_bad_input("{}: a bundle has no gradient of an embedding, and tied_embedding is true",
                    path);
  }
}

}  // namespace

void write_bundle(const std::string& path, const Problem& problem,
                  const std::optional<BundleResults>& expected, const std::string& case_text) {
  const CaseSpec& spec = problem.spec;
  require_expressible(path, spec);
  std::map<std::string, std::string> metadata{{"format", "lossgrid.bundle/1"},
                                              {"objective", objective_text(spec.objective)}};
  if (const std::string transform = transform_text(spec); !transform.empty()) {
    metadata["transform"] = transform;
  }
  if (spec.head != Head::lm) metadata["head"] = find_case_key("head")->get(spec);
  if (problem.sampling_mask != nullptr) {
    metadata["filtered_targets"] = problem.zeroes_filtered_targets() ? "zero" : "drop";
  }
  if (!case_text.empty()) metadata["case"] = case_text;
  if (spec.pad_multiple != 1) metadata["pad_multiple"] = std::to_string(spec.pad_multiple);
  if (spec.bin_multiple != 1) metadata["bin_multiple"] = std::to_string(spec.bin_multiple);
  if (spec.global_valid_toks != 0) {
    metadata["global_valid_toks"] = std::to_string(spec.global_valid_toks);
  }
  if (spec.global_valid_seqs != 0) {
    metadata["global_valid_seqs"] = std::to_string(spec.global_valid_seqs);
  }
  std::vector<TensorToWrite> tensors;
  tensors.push_back(
      make_tensor<std::int32_t>("cu_seqlens", {problem.sequences() + 1}, problem.cu_seqlens));
  tensors.push_back(make_tensor<std::int32_t>("input_ids", {problem.tokens()}, problem.input_ids));
  add_logits(problem, tensors);
  tensors.push_back(make_tensor<float>("token_mask", {problem.tokens()}, problem.token_mask));
  tensors.push_back(make_tensor<float>("sample_mask", {problem.sequences()}, problem.sample_mask));
  if (!problem.temperatures.empty()) {
    tensors.push_back(
        make_tensor<float>("temperatures", {problem.sequences()}, problem.temperatures));
  }
  add_teacher(problem, tensors);
  add_sampling_mask(problem, tensors);
  add_inputs(problem, tensors);
  if (expected) {
    metadata["expected_metrics"] = metrics_json(*expected).dump();
    add_expected(problem, *expected, tensors);
  }
  write_safetensors(path, metadata, tensors);
}

void write_results(const std::string& path, std::int64_t tokens, const BundleResults& results) {
  std::vector<TensorToWrite> tensors;
  add_results("", tokens, results, tensors);
  // Only T and the number of elements are known here; the sizes of the other axes follow.
  const auto add = [&](const char* name, std::int64_t rows, const std::vector<double>& values) {
    const auto elements = static_cast<std::int64_t>(values.size());
    if (rows == 0 || elements == 0) return std::int64_t{0};
    tensors.push_back(matrix_tensor(name, rows, elements / rows, values));
    return elements / rows;
  };
  add("grad_logits", tokens, results.grad_logits);
  const std::int64_t size = add("grad_hidden", tokens, results.grad_hidden);
  if (size != 0) {
    add("grad_weight", static_cast<std::int64_t>(results.grad_weight.size()) / size,
        results.grad_weight);
  }
  if (tokens != 0 && !results.grad_bias.empty()) {
    tensors.push_back(vector_tensor("grad_bias", std::ssize(results.grad_bias), results.grad_bias));
  }
  write_safetensors(
      path, {{"format", "lossgrid.results/1"}, {"metrics", metrics_json(results).dump()}}, tensors);
}

}  // namespace lossgrid
