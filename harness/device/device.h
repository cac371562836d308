// SPDX-License-Identifier: Apache-2.0
// Device: memory and kernels of one rank. One Device per rank, used by that rank's thread only.
// Every allocation goes through the tracker with a tag; a buffer must not outlive its device.
//
// Kernels run in the order of their launches, asynchronously to the host: before the host reads
// their output, or overwrites their input, it calls synchronise(). On the processor the work is
// done at the return of the call.
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

/// Values of --backend. Their differences are in BackendTraits (backend.h).
enum class Backend { cpu, cuda, cuda_emulated };

class Device {
 public:
  Device() = default;
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  virtual std::string_view name() const = 0;
  virtual Backend backend() const = 0;
  /// Returns the stream of kernels: a cudaStream_t, an EmulatedStream*, or null on the processor.
  virtual void* stream() const { return nullptr; }

  /// Returns the operations on whole matrices in memory of this device (harness/device/gemm.h).
  virtual const KernelTable& kernels() const = 0;

  /// Allocates `bytes` of poisoned memory, accounted under `tag`. Throws not_enough_memory.
  Buffer allocate(std::size_t bytes, std::string tag, MemorySpace space = MemorySpace::shared) {
    return Buffer(*this, bytes, std::move(tag), space);
  }

  /// Waits for all launched work. Throws internal if the work failed, or device_lost if its failure
  /// cost the device. From then on every call throws device_lost, except calls that release memory,
  /// which do not touch the device.
  void synchronise();

  /// Copies to[0 .. bytes) := from[0 .. bytes), both memory of this device or of the host, after
  /// all launched work; done at the return.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  /// Fills memory of this device with a pattern of two bytes, after all launched work; shared
  /// memory is full at the return.
  virtual void fill(void* to, std::uint16_t pattern, std::size_t bytes, MemorySpace space) = 0;
  /// Returns true if the host can read `memory`, whoever owns it.
  virtual bool host_reads(const void* /*memory*/) const { return true; }

  /// Returns the current driver memory use; nullopt where memory is the host's.
  virtual std::optional<DriverMemory> driver_memory() { return std::nullopt; }

  /// Launches work that loses the device, to test the handling of the loss. Throws unsupported if
  /// the device cannot be lost.
  virtual void lose();

  MemoryTracker& tracker() { return tracker_; }
  const MemoryTracker& tracker() const { return tracker_; }

  /// Returns the tags of buffers with a broken guard band: live buffers, and buffers released since
  /// the last call.
  std::vector<std::string> take_broken_guards();

 private:
  friend class Buffer;
  friend class Staging;
  virtual std::byte* acquire(std::size_t bytes, MemorySpace space) = 0;
  virtual void release(std::byte* block, MemorySpace space) noexcept = 0;
  /// Waits for launched work, for synchronise().
  virtual void wait() {}
  void attach(Buffer* buffer) { buffers_.push_back(buffer); }
  void detach(Buffer* buffer) noexcept;
  void moved(Buffer* from, Buffer* to) noexcept;

  MemoryTracker tracker_;
  std::vector<Buffer*> buffers_;
  std::vector<std::string> broken_;
};

/// Makes the device of the processor: all memory is the host's, 64-byte aligned.
std::unique_ptr<Device> make_cpu_device();

/// Array of `T` in a buffer of its own.
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
