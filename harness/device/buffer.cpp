// SPDX-License-Identifier: Apache-2.0
#include "harness/device/buffer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "harness/core/rank_observer.h"
#include "harness/device/device.h"

namespace lossgrid {
namespace {

constexpr std::size_t kGuardBytes = 64;
constexpr std::byte kGuardByte{0xA5};

}  // namespace

Buffer::Buffer(Device& device, std::size_t bytes, std::string tag)
    : device_(&device), bytes_(bytes), tag_(std::move(tag)) {
  std::byte* block = device.acquire(bytes_ + 2 * kGuardBytes);
  data_ = block + kGuardBytes;
  std::memset(block, static_cast<int>(kGuardByte), kGuardBytes);
  std::memset(data_ + bytes_, static_cast<int>(kGuardByte), kGuardBytes);
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
      tag_(std::move(other.tag_)) {
  if (device_ != nullptr) device_->moved(&other, this);
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    release();
    device_ = std::exchange(other.device_, nullptr);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    tag_ = std::move(other.tag_);
    if (device_ != nullptr) device_->moved(&other, this);
  }
  return *this;
}

bool Buffer::guards_intact() const {
  if (data_ == nullptr) return true;
  const auto is_guard = [](std::byte b) { return b == kGuardByte; };
  return std::all_of(data_ - kGuardBytes, data_, is_guard) &&
         std::all_of(data_ + bytes_, data_ + bytes_ + kGuardBytes, is_guard);
}

void Buffer::poison() {
  std::fill_n(reinterpret_cast<std::uint16_t*>(data_), bytes_ / sizeof(kPoisonPattern),
              kPoisonPattern);
  if (bytes_ % 2 != 0) data_[bytes_ - 1] = std::byte{0xFB};
}

void Buffer::release() noexcept {
  if (device_ == nullptr) return;
  if (RankObserver* observer = rank_observer()) observer->released(tag_, data_, bytes_);
  device_->detach(this);
  device_->tracker().released(tag_, static_cast<std::int64_t>(bytes_));
  device_->release(data_ - kGuardBytes);
  device_ = nullptr;
  data_ = nullptr;
}

}  // namespace lossgrid
