// SPDX-License-Identifier: Apache-2.0
// `PluginTensors`: the tensors of one pack for a plugin: DLTensors of device buffers with guard
// bands, copied from and to the arrays of the arena (python/PROTOCOL.md). One thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/comm/communicator.h"
#include "harness/core/dtype.h"
#include "harness/device/device.h"
#include "lossgrid/plugin.h"

namespace lossgrid {

/// Arrays of the arena.
struct PluginArena {
  std::byte* memory;
  nlohmann::json list;  // list of arrays, as in `begin`
};

/// Ids whose columns the rank has, among the V_t columns of its arrays.
struct PluginShard {
  std::int64_t width;  // V_t
  std::int64_t own;
  bool by_id;  // weight is [V_t, H], else [H, V_t]
  DLDevice device;
};

class PluginTensors {
 public:
  /// Copies the batch to `device`. Throws not_enough_memory.
  PluginTensors(Device& device, const PluginArena& arena, const PluginShard& shard);
  PluginTensors(const PluginTensors&) = delete;
  PluginTensors& operator=(const PluginTensors&) = delete;

  /// Returns the tensor of an array, such as "labels" or "own.valid"; null for an unknown name.
  DLTensor* find(const std::string& name);
  bool has(const std::string& name) const { return tensors_.contains(name); }
  Device& device() const { return device_; }

  /// The following two functions copy arrays whose name begins with `prefix` from the arena, and to
  /// it.
  void read(const std::string& prefix);
  void write(const std::string& prefix);
  /// Copies the inputs of the rank from the arena.
  void read_inputs();
  /// Writes poison to the arrays whose name begins with `prefix`, so that unwritten elements show.
  void poison(const std::string& prefix);
  /// Returns the arrays of batch and inputs that changed since they were read, without `logits` if
  /// `may_change_logits`.
  std::vector<std::string> changed(bool may_change_logits) const;
  /// Returns the gradients that were written in columns of padding.
  std::vector<std::string> written_in_padding() const;

  /// Returns an array of the arena, in memory of the host.
  template <typename T>
  std::span<T> array(const std::string& name) const {
    const Tensor& tensor = tensors_.at(name);
    return {reinterpret_cast<T*>(tensor.in_arena), tensor.buffer.bytes() / sizeof(T)};
  }

 private:
  struct Tensor {
    Buffer buffer;
    std::byte* in_arena = nullptr;
    std::array<std::int64_t, 2> shape{};
    std::array<std::int64_t, 2> strides{};
    DLTensor view{};
    std::uint64_t bits = 0;  // fingerprint of the array as read
  };
  Tensor& add(const std::string& name, DType dtype, const std::vector<std::int64_t>& shape,
              std::byte* in_arena);
  void cut_to_own_ids(const std::string& name, Tensor& tensor) const;
  /// Sets columns of padding in the arena to zero.
  void clear_padding(const std::string& name, Tensor& tensor) const;
  template <typename F>
  void for_each_padding(const std::string& name, const Tensor& tensor, std::byte* memory,
                        F&& f) const;
  void add_own_rows();
  void copy_in(Tensor& tensor);

  Device& device_;
  PluginShard shard_;
  std::map<std::string, Tensor> tensors_;
  std::vector<std::int64_t> labels_;  // labels of the own rows, on the host
  std::vector<std::uint8_t> valid_;
};

/// Returns the type and number of the device of a rank. `world`: all ranks.
DLDevice dl_device(const Device& device, const Communicator& world);
/// Returns the memory space for tensors of a plugin: the host's if the plugin runs on the host,
/// even if the emulation keeps memory of kernels apart.
MemorySpace plugin_space(const Device& device);
/// Returns the element type with a name of the protocol.
DLDataType dl_dtype(const std::string& name);

}  // namespace lossgrid
