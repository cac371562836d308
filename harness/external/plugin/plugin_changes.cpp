// SPDX-License-Identifier: Apache-2.0
#include "harness/external/plugin/plugin_changes.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace lossgrid {
namespace {

bool is_kind(const nlohmann::json& change, const char* kind) {
  return change.is_object() && change.at("kind") == kind;
}

/// Calls f(span of T) on an array of the arena, by its type: double, float or bf16.
template <typename F>
void with_floats(const char* name, PluginTensors& tensors, F&& f) {
  const DLTensor* tensor = tensors.find(name);
  if (tensor == nullptr) return;
  const DType dtype = tensor->dtype.code == kDLBfloat ? DType::bf16
                      : tensor->dtype.bits == 64      ? DType::f64
                                                      : DType::f32;
  dispatch_floating(dtype, [&](auto zero) { f(tensors.array<decltype(zero)>(name)); });
}

void round_input(const char* name, PluginTensors& tensors) {
  with_floats(name, tensors, [&](auto values) {
    auto rounded = std::vector(values.begin(), values.end());
    using T = typename decltype(rounded)::value_type;
    for (T& x : rounded) {
      x = static_cast<T>(static_cast<float>(bf16(static_cast<float>(static_cast<double>(x)))));
    }
    const std::size_t bytes = rounded.size() * sizeof(T);
    if (bytes > 0) tensors.device().copy(tensors.find(name)->data, rounded.data(), bytes);
  });
}

/// Writes other values to an array of the batch on the device.
template <typename T>
void replace(const char* name, const std::vector<T>& values, PluginTensors& tensors) {
  if (values.empty()) return;
  tensors.device().copy(tensors.find(name)->data, values.data(), values.size() * sizeof(T));
}

}  // namespace

void change_inputs(const nlohmann::json& change, PluginTensors& tensors) {
  if (is_kind(change, "round_inputs")) {
    for (const char* name : {"logits", "hidden", "weight", "bias"}) round_input(name, tensors);
  } else if (is_kind(change, "roll_labels")) {
    for (const char* name : {"labels", "targets"}) {
      const auto values = tensors.array<std::int64_t>(name);
      std::vector<std::int64_t> rolled(values.begin(), values.end());
      if (!rolled.empty()) std::rotate(rolled.begin(), rolled.end() - 1, rolled.end());
      replace(name, rolled, tensors);
    }
  } else if (is_kind(change, "ignore_mask")) {
    for (const char* name : {"valid", "own.valid", "token_mask", "sample_mask"}) {
      replace(name, std::vector<std::uint8_t>(tensors.array<std::uint8_t>(name).size(), 1),
              tensors);
    }
  }
}

void change_outputs(const nlohmann::json& change, PluginTensors& tensors) {
  if (!is_kind(change, "stale_outputs")) return;
  for (const char* name : {"out.logprobs", "out.entropy"}) {
    with_floats(name, tensors, [](auto values) {
      if (!values.empty()) std::rotate(values.begin(), values.end() - 1, values.end());
    });
  }
}

void change_upstream(const nlohmann::json& change, PluginTensors& tensors) {
  if (!is_kind(change, "entropy_gradient_factor") || !tensors.has("upstream.entropy")) return;
  const float factor = change.at("factor");
  for (float& x : tensors.array<float>("upstream.entropy")) x *= factor;
}

void change_gradients(const nlohmann::json& change, const lossgrid_problem& problem,
                      PluginTensors& tensors) {
  double factor = 1;
  if (is_kind(change, "gradient_factor")) factor = change.at("factor");
  const bool is_last = problem.tp_rank == problem.tp - 1;
  if (is_kind(change, "gradient_zero_last_tp") && is_last) factor = 0;
  if (factor == 1) return;
  for (const char* name : {"grad.logits", "grad.hidden", "grad.weight", "grad.bias"}) {
    with_floats(name, tensors, [&](auto values) {
      using T = typename decltype(values)::value_type;
      for (T& x : values) x = static_cast<T>(static_cast<float>(static_cast<double>(x) * factor));
    });
  }
}

}  // namespace lossgrid
