// SPDX-License-Identifier: Apache-2.0
#include "harness/device/memory/buffer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "harness/core/process/heap_watch.h"
#include "harness/core/rank_observer.h"
#include "harness/device/device.h"

namespace lossgrid {
namespace {

/// Bytes of a guard band: 256 keeps tensors as aligned as their blocks, and cuBLASLt prefers 256
/// bytes.
constexpr std::size_t kGuardBytes = 256;
constexpr std::uint16_t kGuardPattern = 0xA5A5;

}  // namespace

Buffer::Buffer(Device& device, std::size_t bytes, std::string tag, MemorySpace space)
    : device_(&device), bytes_(bytes), tag_(std::move(tag)), space_(space) {
  const HeapWatchScope unwatched(nullptr);  // the tracker counts this memory
  std::byte* block = device.acquire(bytes_ + 2 * kGuardBytes, space_);
  data_ = block + kGuardBytes;
  device.fill(block, kGuardPattern, kGuardBytes, space_);
  device.fill(data_ + bytes_, kGuardPattern, kGuardBytes, space_);
  device.tracker().allocated(tag_, static_cast<std::int64_t>(bytes_));
  device.attach(this);
  if (RankObserver* observer = rank_observer()) observer->allocated(tag_, data_, bytes_);
  poison();
}

Buffer::~Buffer() {
  release();
}

Buffer::Buffer(Buffer&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      tag_(std::move(other.tag_)),
      space_(other.space_) {
  if (device_ != nullptr) device_->moved(&other, this);
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    release();
    device_ = std::exchange(other.device_, nullptr);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    tag_ = std::move(other.tag_);
    space_ = other.space_;
    if (device_ != nullptr) device_->moved(&other, this);
  }
  return *this;
}

bool Buffer::guards_intact() const {
  if (data_ == nullptr) return true;
  return is_guard(data_ - kGuardBytes) && is_guard(data_ + bytes_);
}

bool Buffer::is_guard(const std::byte* band) const {
  std::array<std::uint16_t, kGuardBytes / sizeof(kGuardPattern)> found;
  device_->copy(found.data(), band, kGuardBytes);
  return std::all_of(found.begin(), found.end(),
                     [](std::uint16_t pattern) { return pattern == kGuardPattern; });
}

void Buffer::poison() {
  device_->fill(data_, kPoisonPattern, bytes_, space_);
}

void Buffer::release() noexcept {
  if (device_ == nullptr) return;
  if (RankObserver* observer = rank_observer()) observer->released(tag_, data_, bytes_);
  device_->detach(this);
  device_->tracker().released(tag_, static_cast<std::int64_t>(bytes_));
  device_->release(data_ - kGuardBytes, space_);
  device_ = nullptr;
  data_ = nullptr;
}

}  // namespace lossgrid
