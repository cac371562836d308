// SPDX-License-Identifier: Apache-2.0
// Descriptor: an owned file descriptor, closed by the destructor. One thread owns an object.
#pragma once

#include <utility>

#include <unistd.h>

namespace lossgrid {

class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : value_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    close();
    value_ = other.release();
    return *this;
  }
  int get() const { return value_; }
  bool valid() const { return value_ >= 0; }
  int release() { return std::exchange(value_, -1); }

 private:
  void close() {
    if (value_ >= 0) ::close(value_);
  }

  int value_;
};

}  // namespace lossgrid
