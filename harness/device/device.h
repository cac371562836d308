// SPDX-License-Identifier: Apache-2.0
// Where buffers live. One Device per rank, used by that rank's thread only. Every allocation goes
// through the tracker with a tag; a buffer must not outlive its device.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/device/buffer.h"
#include "harness/device/memory_tracker.h"

namespace lossgrid {

struct KernelTable;

enum class Backend { cpu, cuda, cuda_emulated };  // backend.h

class Device {
 public:
  Device() = default;
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  virtual std::string_view name() const = 0;
  virtual Backend backend() const = 0;
  /// What kernels of the backend are launched on: cudaStream_t, or null.
  virtual void* stream() const { return nullptr; }

  /// Whole-matrix operations on memory of this device (harness/device/gemm.h).
  virtual const KernelTable& kernels() const = 0;

  /// `bytes` of poisoned memory, accounted under `tag`. Throws not_enough_memory.
  Buffer allocate(std::size_t bytes, std::string tag) {
    return Buffer(*this, bytes, std::move(tag));
  }

  MemoryTracker& tracker() { return tracker_; }
  const MemoryTracker& tracker() const { return tracker_; }

  /// Tags of the buffers with a broken guard band, of those alive and those released since the last
  /// call; empty when all is well.
  std::vector<std::string> take_broken_guards();

 private:
  friend class Buffer;
  virtual std::byte* acquire(std::size_t bytes) = 0;
  virtual void release(std::byte* block) noexcept = 0;
  void attach(Buffer* buffer) { buffers_.push_back(buffer); }
  void detach(Buffer* buffer) noexcept;
  void moved(Buffer* from, Buffer* to) noexcept;

  MemoryTracker tracker_;
  std::vector<Buffer*> buffers_;
  std::vector<std::string> broken_;
};

/// Host memory, 64-byte aligned.
std::unique_ptr<Device> make_cpu_device();
/// The same for the backend cuda_emulated.
std::unique_ptr<Device> make_emulated_device();

/// An array of `T` in a buffer of its own.
template <typename T>
class DeviceArray {
 public:
  DeviceArray() = default;
  DeviceArray(Device& device, std::size_t size, std::string tag)
      : buffer_(device.allocate(size * sizeof(T), std::move(tag))) {}

  T* data() { return reinterpret_cast<T*>(buffer_.data()); }
  const T* data() const { return reinterpret_cast<const T*>(buffer_.data()); }
  std::size_t size() const { return buffer_.bytes() / sizeof(T); }
  T& operator[](std::size_t i) { return data()[i]; }
  const T& operator[](std::size_t i) const { return data()[i]; }
  T* begin() { return data(); }
  T* end() { return data() + size(); }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size(); }
  Buffer& buffer() { return buffer_; }

 private:
  Buffer buffer_;
};

}  // namespace lossgrid
