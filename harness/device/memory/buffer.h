// SPDX-License-Identifier: Apache-2.0
// A piece of device memory with an owner tag and guard bands on both sides. Move-only; the
// destructor returns the memory. The bands are written at allocation and never by a right program,
// so that a write outside the buffer is seen by `guards_intact`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "harness/core/dtype.h"

namespace lossgrid {

/// The bytes of fresh buffers: a quiet NaN in f64, f32 and bf16 alike, with a payload that no
/// arithmetic makes, so that an element that was never written is told from a computed NaN.
inline constexpr std::uint16_t kPoisonPattern = 0x7FFB;

class Device;

/// Who reads and writes a buffer: host and kernels alike (on a GPU, pinned memory of the host), or
/// kernels alone: there the host copies (Device::copy, host_view.h). Tables by token are shared,
/// tensors are the device's. One memory where the processor is the device.
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

  /// True when nothing was written in front of or behind the buffer.
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
