// SPDX-License-Identifier: Apache-2.0
// Buffer: a piece of device memory with an owner tag and guard bands on both sides. Move-only; the
// destructor returns the memory. No right program writes the bands after the allocation, so
// `guards_intact` finds writes outside of the buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "harness/core/dtype.h"

namespace lossgrid {

/// Bytes of fresh buffers: a quiet NaN in f64, f32 and bf16 alike, with a payload that no
/// arithmetic makes, so that an unwritten element differs from a computed NaN.
inline constexpr std::uint16_t kPoisonPattern = 0x7FFB;

class Device;

/// Kinds of memory. shared: accessed by both host and kernels (on a GPU, pinned memory of the
/// host). device: accessed by kernels only; the host copies (Device::copy, host_view.h). Tables by
/// token are shared, except for a copy of the targets; tensors are in device memory. On the
/// processor both kinds are the same.
enum class MemorySpace { shared, device };

class Buffer {
 public:
  Buffer() = default;
  Buffer(Device& device, std::size_t bytes, std::string tag, MemorySpace space);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  const std::string& tag() const { return tag_; }

  template <typename T>
  std::span<T> as() {
    return {reinterpret_cast<T*>(data_), bytes_ / sizeof(T)};
  }
  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data_), bytes_ / sizeof(T)};
  }
  MemorySpace space() const { return space_; }
  Device& device() const { return *device_; }

  /// Returns true if no byte was written before or after the buffer.
  bool guards_intact() const;

  /// Writes the poison pattern over the whole buffer.
  void poison();

 private:
  void release() noexcept;
  bool is_guard(const std::byte* band) const;

  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::string tag_;
  MemorySpace space_ = MemorySpace::shared;
};

}  // namespace lossgrid
