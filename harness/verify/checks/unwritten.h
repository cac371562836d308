// SPDX-License-Identifier: Apache-2.0
// Detection of elements of an output that were never written: fresh buffers hold the poison pattern
// (buffer.h) in every 16 bits, which no arithmetic makes.
#pragma once

#include <cstdint>
#include <cstring>

#include "harness/device/memory/buffer.h"

namespace lossgrid {

/// True if every 16 bits of `value` hold the poison pattern.
template <typename T>
bool is_unwritten(const T& value) {
  std::uint16_t halves[sizeof(T) / 2];
  std::memcpy(halves, &value, sizeof(T));
  for (const std::uint16_t half : halves) {
    if (half != kPoisonPattern) return false;
  }
  return true;
}

}  // namespace lossgrid
