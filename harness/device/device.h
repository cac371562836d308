// SPDX-License-Identifier: Apache-2.0
// Where buffers live and kernels run. One Device per rank, used by that rank's thread only. Every
// allocation goes through the tracker with a tag; a buffer must not outlive its device.
//
// Kernels run in the order in which they were launched, and behind the host's back: whoever reads
// on the host what they write, or overwrites there what they read, calls synchronise() before. A
// processor has done its work when the call returns.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/device/memory/buffer.h"
#include "harness/device/memory/driver_memory.h"
#include "harness/device/memory/memory_tracker.h"

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
  Buffer allocate(std::size_t bytes, std::string tag, MemorySpace space = MemorySpace::shared) {
    return Buffer(*this, bytes, std::move(tag), space);
  }

  /// Waits for all that was launched. Throws internal with what went wrong in it; device_lost where
  /// that cost the device: then every later call throws so, but those that give memory back, which
  /// leave the device alone.
  void synchronise();

  /// to[0 .. bytes) := from[0 .. bytes), both memory of this device or of the host, behind all that
  /// was launched; done when it returns.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  /// Fills memory of this device with a pattern of two bytes, behind all that was launched; what is
  /// shared is full when it returns.
  virtual void fill(void* to, std::uint16_t pattern, std::size_t bytes, MemorySpace space) = 0;
  /// Whether the host can read `memory`, whoever it belongs to.
  virtual bool host_reads(const void* /*memory*/) const { return true; }

  /// Now; nothing where memory is the host's.
  virtual std::optional<DriverMemory> driver_memory() { return std::nullopt; }

  /// Launches what the device does not survive, to see what the harness does. Throws unsupported
  /// where there is nothing to lose.
  virtual void lose();

  MemoryTracker& tracker() { return tracker_; }
  const MemoryTracker& tracker() const { return tracker_; }

  /// Tags of the buffers with a broken guard band, of those alive and those released since the last
  /// call; empty when all is well.
  std::vector<std::string> take_broken_guards();

 private:
  friend class Buffer;
  friend class Staging;
  virtual std::byte* acquire(std::size_t bytes, MemorySpace space) = 0;
  virtual void release(std::byte* block, MemorySpace space) noexcept = 0;
  /// As synchronise().
  virtual void wait() {}
  void attach(Buffer* buffer) { buffers_.push_back(buffer); }
  void detach(Buffer* buffer) noexcept;
  void moved(Buffer* from, Buffer* to) noexcept;

  MemoryTracker tracker_;
  std::vector<Buffer*> buffers_;
  std::vector<std::string> broken_;
};

/// The processor: all memory is the host's, 64-byte aligned.
std::unique_ptr<Device> make_cpu_device();

/// An array of `T` in a buffer of its own.
template <typename T>
class DeviceArray {
 public:
  DeviceArray() = default;
  DeviceArray(Device& device, std::size_t size, std::string tag,
              MemorySpace space = MemorySpace::shared)
      : buffer_(device.allocate(size * sizeof(T), std::move(tag), space)) {}

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
  const Buffer& buffer() const { return buffer_; }

 private:
  Buffer buffer_;
};

}  // namespace lossgrid
