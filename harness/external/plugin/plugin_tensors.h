// SPDX-License-Identifier: Apache-2.0
// `PluginTensors`: the tensors of one pack as a plugin gets them: DLTensors of buffers of the
// device with guard bands, copied from and to the arrays of the arena (python/PROTOCOL.md). One
// thread.
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
  nlohmann::json list;  // as in `begin`
};

/// Ids whose columns the rank has among the V_t of its arrays.
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

  /// Returns the tensor of an array, "labels" and "own.valid" among them; null if there is none.
  DLTensor* find(const std::string& name);
  bool has(const std::string& name) const { return tensors_.contains(name); }
  Device& device() const { return device_; }

  /// Copies arrays whose name begins with `prefix` from the arena, or back.
  void read(const std::string& prefix);
  void write(const std::string& prefix);
  /// Copies the inputs of the rank from the arena.
  void read_inputs();
  /// Writes poison to the arrays whose name begins with `prefix`: what stays was never written.
  void poison(const std::string& prefix);
  /// Returns the arrays of batch and inputs that are no longer as they were read; `logits` not if
  /// `may_change_logits`.
  std::vector<std::string> changed(bool may_change_logits) const;
  /// Returns the gradients that were written in the columns of padding, between their rows.
  std::vector<std::string> written_in_padding() const;

  /// Returns an array of the arena, which the host sees.
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
    std::uint64_t bits = 0;  // as it was read
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
  std::vector<std::int64_t> labels_;  // of the own rows, on the host, as the next
  std::vector<std::uint8_t> valid_;
};

/// Returns the type and number of the device of a rank. `world`: all ranks.
DLDevice dl_device(const Device& device, const Communicator& world);
/// Returns the space of memory that a plugin gets: the host's for a plugin that runs on it, also
/// where the emulation keeps memory of kernels apart.
MemorySpace plugin_space(const Device& device);
/// Returns the element type of the protocol's name.
DLDataType dl_dtype(const std::string& name);

}  // namespace lossgrid
