// SPDX-License-Identifier: Apache-2.0
#include "harness/external/plugin/plugin_tensors.h"

#include <algorithm>
#include <cstring>

#include "harness/core/error.h"
#include "harness/core/hash.h"
#include "harness/device/backend.h"
#include "harness/device/memory/host_view.h"

namespace lossgrid {
namespace {

struct NamedType {
  const char* name;
  DType dtype;
  DLDataType dl;
};

constexpr NamedType kTypes[] = {
    {"float64", DType::f64, {kDLFloat, 64, 1}},    {"float32", DType::f32, {kDLFloat, 32, 1}},
    {"bfloat16", DType::bf16, {kDLBfloat, 16, 1}}, {"int64", DType::i64, {kDLInt, 64, 1}},
    {"int32", DType::i32, {kDLInt, 32, 1}},        {"uint8", DType::u8, {kDLUInt, 8, 1}},
};

const NamedType& named_type(const std::string& name) {
  for (const NamedType& type : kTypes) {
    if (name == type.name) return type;
  }
  throw Error(ErrorCode::internal, fmt::format("no type '{}' of the protocol", name));
}

constexpr const char* kInputs[] = {"logits",         "hidden",        "weight",
                                   "bias",           "sampling_mask", "teacher_logits",
                                   "teacher_hidden", "teacher_weight"};

bool is_input(const std::string& name) {
  return std::find(std::begin(kInputs), std::end(kInputs), name) != std::end(kInputs);
}

bool is_written(const std::string& name) {
  return name.starts_with("out.") || name.starts_with("grad.") || name.starts_with("upstream.");
}

}  // namespace

DLDevice dl_device(const Device& device, const Communicator& world) {
  // Memory of the emulation is the host's.
  if (!traits_of(device.backend()).is_gpu) return {kDLCPU, 0};
  const std::size_t gpus = describe_devices(device.backend()).size();
  return {kDLCUDA, static_cast<std::int32_t>(static_cast<std::size_t>(world.rank()) % gpus)};
}

MemorySpace plugin_space(const Device& device) {
  return traits_of(device.backend()).is_gpu ? MemorySpace::device : MemorySpace::shared;
}

DLDataType dl_dtype(const std::string& name) {
  return named_type(name).dl;
}

PluginTensors::PluginTensors(Device& device, const PluginArena& arena, const PluginShard& shard)
    : device_(device), shard_(shard) {
  for (const auto& [name, place] : arena.list.items()) {
    std::byte* const in_arena = arena.memory + place.at("offset").get<std::size_t>();
    const auto shape = place.at("shape").get<std::vector<std::int64_t>>();
    Tensor& tensor = add(name, named_type(place.at("dtype")).dtype, shape, in_arena);
    cut_to_own_ids(name, tensor);
    if (!is_input(name) && !is_written(name)) copy_in(tensor);
  }
  add_own_rows();
}

PluginTensors::Tensor& PluginTensors::add(const std::string& name, DType dtype,
                                          const std::vector<std::int64_t>& shape,
                                          std::byte* in_arena) {
  Tensor& tensor = tensors_[name];
  std::int64_t count = 1;
  for (std::size_t k = shape.size(); k-- > 0;) {
    tensor.shape[k] = shape[k];
    tensor.strides[k] = count;
    count *= shape[k];
  }
  tensor.in_arena = in_arena;
  tensor.buffer = device_.allocate(static_cast<std::size_t>(count) * size_of(dtype),
                                   "plugin_tensors/" + name, plugin_space(device_));
  const auto type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                 [&](const NamedType& one) { return one.dtype == dtype; });
  tensor.view = {.data = tensor.buffer.data(),
                 .device = shard_.device,
                 .ndim = static_cast<std::int32_t>(shape.size()),
                 .dtype = type->dl,
                 .shape = tensor.shape.data(),
                 .strides = tensor.strides.data(),
                 .byte_offset = 0};
  return tensor;
}

void PluginTensors::cut_to_own_ids(const std::string& name, Tensor& tensor) const {
  const bool is_weight = name == "weight" || name == "grad.weight";
  if (name.ends_with("logits") || name == "sampling_mask") tensor.shape[1] = shard_.own;
  if (is_weight && !shard_.by_id) {
    std::swap(tensor.shape[0], tensor.shape[1]);
    std::swap(tensor.strides[0], tensor.strides[1]);
  }
  if (is_weight || name.ends_with("bias") || name == "teacher_weight") {
    tensor.shape[0] = shard_.own;
  }
}

void PluginTensors::add_own_rows() {
  const std::span<const std::int64_t> positions = array<std::int64_t>("positions");
  const std::span<const std::int64_t> targets = array<std::int64_t>("targets");
  const std::span<const std::uint8_t> valid = array<std::uint8_t>("valid");
  for (const std::int64_t position : positions) {
    const auto row = static_cast<std::size_t>(position);
    labels_.push_back(std::max<std::int64_t>(0, targets[row]));
    valid_.push_back(valid[row]);
  }
  const auto rows = static_cast<std::int64_t>(positions.size());
  copy_in(add("labels", DType::i64, {rows}, reinterpret_cast<std::byte*>(labels_.data())));
  copy_in(add("own.valid", DType::u8, {rows}, reinterpret_cast<std::byte*>(valid_.data())));
}

DLTensor* PluginTensors::find(const std::string& name) {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second.view;
}

void PluginTensors::copy_in(Tensor& tensor) {
  const std::size_t bytes = tensor.buffer.bytes();
  if (bytes > 0) device_.copy(tensor.buffer.data(), tensor.in_arena, bytes);
  tensor.bits = fingerprint({tensor.in_arena, bytes});
}

void PluginTensors::read(const std::string& prefix) {
  for (auto& [name, tensor] : tensors_) {
    if (name.starts_with(prefix)) copy_in(tensor);
  }
}

void PluginTensors::read_inputs() {
  for (auto& [name, tensor] : tensors_) {
    if (is_input(name)) copy_in(tensor);
  }
}

void PluginTensors::write(const std::string& prefix) {
  for (auto& [name, tensor] : tensors_) {
    if (!name.starts_with(prefix) || tensor.buffer.bytes() == 0) continue;
    device_.copy(tensor.in_arena, tensor.buffer.data(), tensor.buffer.bytes());
    clear_padding(name, tensor);
  }
}

void PluginTensors::poison(const std::string& prefix) {
  for (auto& [name, tensor] : tensors_) {
    if (name.starts_with(prefix)) tensor.buffer.poison();
  }
}

template <typename F>
void PluginTensors::for_each_padding(const std::string& name, const Tensor& tensor,
                                     std::byte* memory, F&& f) const {
  const bool is_weight = name == "grad.weight";
  const bool is_bias = name == "grad.bias";
  if (name != "grad.logits" && !is_weight && !is_bias) return;
  const std::size_t element = tensor.view.dtype.bits / 8;
  const auto other = static_cast<std::size_t>(is_bias ? 1 : tensor.shape[is_weight ? 1 : 0]);
  const std::size_t padding = static_cast<std::size_t>(shard_.width - shard_.own) * element;
  const std::size_t own = static_cast<std::size_t>(shard_.own) * element;
  if (padding == 0) return;
  if (is_weight && shard_.by_id) return f(memory + own * other, padding * other);
  for (std::size_t row = 0; row < other; ++row) {
    f(memory + row * (own + padding) + own, padding);
  }
}

void PluginTensors::clear_padding(const std::string& name, Tensor& tensor) const {
  for_each_padding(name, tensor, tensor.in_arena,
                   [](std::byte* begin, std::size_t bytes) { std::memset(begin, 0, bytes); });
}

std::vector<std::string> PluginTensors::changed(bool may_change_logits) const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) {
    if (is_written(name) || (name == "logits" && may_change_logits)) continue;
    const HostView now(tensor.buffer);
    if (fingerprint(now.bytes()) == tensor.bits) continue;
    names.push_back(is_input(name) ? name : "batch." + name);
  }
  return names;
}

std::vector<std::string> PluginTensors::written_in_padding() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) {
    if (!name.starts_with("grad.")) continue;
    const HostView now(tensor.buffer);
    bool intact = true;
    for_each_padding(name, tensor, now.data(), [&](std::byte* begin, std::size_t bytes) {
      for (std::size_t k = 0; k + 2 <= bytes; k += 2) {
        std::uint16_t word = 0;
        std::memcpy(&word, begin + k, sizeof(word));
        intact = intact && word == kPoisonPattern;
      }
    });
    if (!intact) names.push_back("columns of padding of " + name);
  }
  return names;
}

}  // namespace lossgrid
