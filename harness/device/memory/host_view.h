// SPDX-License-Identifier: Apache-2.0
// HostView: memory of a device as the host sees it: the memory itself if the host can read it, else
// a copy. For checks, mutants and other work outside of measurements.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "harness/core/process/heap_watch.h"
#include "harness/device/device.h"
#include "harness/device/kernel/rank_threads.h"

namespace lossgrid {

class HostView {
 public:
  /// Waits for all launched work, then views the memory.
  HostView(Device& device, const void* memory, std::size_t bytes)
      : device_(&device),
        memory_(static_cast<std::byte*>(const_cast<void*>(memory))),
        data_(memory_),
        bytes_(bytes) {
    device.synchronise();
    if (device.host_reads(memory)) return;
    const HeapWatchScope unwatched(nullptr);
    copy_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    data_ = copy_.get();
    touch_pages();
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

  /// Writes the view back to the memory.
  void write_back() const {
    if (copy_) device_->copy(memory_, data_, bytes_);
  }

 private:
  /// Touches the pages with the threads of the rank, so that the system maps them: the driver,
  /// which copies with one thread, would wait for each page.
  void touch_pages() const {
    constexpr std::size_t kPageBytes = 4096;
    parallel_for(static_cast<std::int64_t>(bytes_ / kPageBytes),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t page = begin; page < end; ++page) {
                     data_[static_cast<std::size_t>(page) * kPageBytes] = std::byte{0};
                   }
                 });
  }

  Device* device_;
  std::byte* memory_;
  std::byte* data_;
  std::size_t bytes_;
  std::unique_ptr<std::byte[]> copy_;
};

}  // namespace lossgrid
