// SPDX-License-Identifier: Apache-2.0
// What the host sees of memory of a device: the memory itself where it can read it, else a copy of
// its own. For checks, mutants and whatever else is not part of what is measured.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "harness/device/device.h"

namespace lossgrid {

class HostView {
 public:
  /// As the memory is when all that was launched is done.
  HostView(Device& device, const void* memory, std::size_t bytes)
      : device_(&device),
        memory_(static_cast<std::byte*>(const_cast<void*>(memory))),
        data_(memory_),
        bytes_(bytes) {
    device.synchronise();
    if (device.host_reads(memory)) return;
    copy_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    data_ = copy_.get();
    device.copy(data_, memory, bytes);
  }
  explicit HostView(const Buffer& buffer)
      : HostView(buffer.device(), buffer.data(), buffer.bytes()) {}

  template <typename T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data_), bytes_ / sizeof(T)};
  }
  std::byte* data() const { return data_; }
  std::span<const std::byte> bytes() const { return {data_, bytes_}; }

  /// Makes the memory what the host has made of its view.
  void write_back() const {
    if (copy_) device_->copy(memory_, data_, bytes_);
  }

 private:
  Device* device_;
  std::byte* memory_;
  std::byte* data_;
  std::size_t bytes_;
  std::unique_ptr<std::byte[]> copy_;
};

}  // namespace lossgrid
