// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>

#include <nlohmann/json.hpp>

#include "harness/core/error.h"
#include "harness/problem/bundle.h"
#include "harness/problem/bundle_tensors.h"
#include "harness/problem/safetensors.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;

template <typename T, typename Values>
TensorToWrite tensor_of(std::string name, std::vector<std::int64_t> shape, const Values& values) {
  TensorToWrite tensor{
      std::move(name), std::string(tensor_dtype(DTypeOf<T>::value)), std::move(shape), {}};
  tensor.data.resize(values.size() * sizeof(T));
  std::byte* next = tensor.data.data();
  for (const auto value : values) {
    const T element = static_cast<T>(value);
    std::memcpy(next, &element, sizeof(T));
    next += sizeof(T);
  }
  return tensor;
}

TensorToWrite logits_tensor(const Problem& problem) {
  const std::int64_t tokens = problem.tokens();
  const std::int64_t vocab = problem.spec.vocab;
  TensorToWrite tensor{
      "logits", std::string(tensor_dtype(problem.spec.dtype)), {tokens, vocab}, {}};
  const auto width = static_cast<std::size_t>(vocab);
  tensor.data.resize(static_cast<std::size_t>(tokens) * width * size_of(problem.spec.dtype));
  dispatch_floating(problem.spec.dtype, [&](auto element) {
    using T = decltype(element);
    // bf16 values are exact in float; float32 bits stay what they are.
    using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
    std::vector<Wide> row(width);
    std::byte* next = tensor.data.data();
    for (std::int64_t t = 0; t < tokens; ++t) {
      problem.logits->read(t, 0, std::span<Wide>(row));
      for (const Wide value : row) {
        const T stored = static_cast<T>(value);
        std::memcpy(next, &stored, sizeof(T));
        next += sizeof(T);
      }
    }
  });
  return tensor;
}

Json metrics_json(const BundleResults& results) {
  Json json = Json::object();
  for (const auto& [name, value] : results.metrics) {
    json[name] = std::isfinite(value) ? Json(value) : Json(nullptr);
  }
  return json;
}

void add_results(const std::string& prefix, const BundleResults& results,
                 std::vector<TensorToWrite>& tensors) {
  const auto tokens = static_cast<std::int64_t>(results.logprobs.size());
  const auto elements = static_cast<std::int64_t>(results.grad_logits.size());
  tensors.push_back(tensor_of<double>(prefix + "loss", {1}, std::vector<double>{results.loss}));
  tensors.push_back(tensor_of<double>(prefix + "logprobs", {tokens}, results.logprobs));
  if (elements == 0) return;
  if (tokens == 0 || elements % tokens != 0) {
    throw Error(ErrorCode::internal,
                fmt::format("a gradient of {} elements for {} tokens", elements, tokens));
  }
  tensors.push_back(
      tensor_of<double>(prefix + "grad_logits", {tokens, elements / tokens}, results.grad_logits));
}

Json objective_json(const ObjectiveSpec& objective) {
  Json json;
  json["kind"] = objective.kind;
  for (const auto& [name, value] : objective.options) json[name] = Json::parse(value);
  return json;
}

}  // namespace

void write_bundle(const std::string& path, const Problem& problem,
                  const std::optional<BundleResults>& expected) {
  if (problem.logits == nullptr) {
    throw_bad_input("{}: a bundle is written from logits: {}", path, problem.why_no_logits);
  }
  const CaseSpec& spec = problem.spec;
  std::map<std::string, std::string> metadata{{"format", "lossgrid.bundle/1"},
                                              {"objective", objective_json(spec.objective).dump()}};
  if (spec.global_valid_toks != 0) {
    metadata["global_valid_toks"] = std::to_string(spec.global_valid_toks);
  }
  if (spec.global_valid_seqs != 0) {
    metadata["global_valid_seqs"] = std::to_string(spec.global_valid_seqs);
  }
  std::vector<TensorToWrite> tensors;
  tensors.push_back(
      tensor_of<std::int32_t>("cu_seqlens", {problem.sequences() + 1}, problem.cu_seqlens));
  tensors.push_back(tensor_of<std::int32_t>("input_ids", {problem.tokens()}, problem.input_ids));
  tensors.push_back(logits_tensor(problem));
  tensors.push_back(tensor_of<float>("token_mask", {problem.tokens()}, problem.token_mask));
  tensors.push_back(tensor_of<float>("sample_mask", {problem.sequences()}, problem.sample_mask));
  if (expected) {
    metadata["expected_metrics"] = metrics_json(*expected).dump();
    add_results("expected.", *expected, tensors);
    if (expected->grad_logits.empty()) {  // no tokens: the bundle still says [0, V]
      tensors.push_back(tensor_of<double>("expected.grad_logits", {problem.tokens(), spec.vocab},
                                          expected->grad_logits));
    }
  }
  write_safetensors(path, metadata, tensors);
}

void write_results(const std::string& path, const BundleResults& results) {
  std::vector<TensorToWrite> tensors;
  add_results("", results, tensors);
  write_safetensors(
      path, {{"format", "lossgrid.results/1"}, {"metrics", metrics_json(results).dump()}}, tensors);
}

}  // namespace lossgrid
