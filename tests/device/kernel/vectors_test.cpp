// SPDX-License-Identifier: Apache-2.0
#include "harness/device/kernel/vectors.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <numeric>

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

/// 64 bytes with their numbers, on a multiple of 16.
struct alignas(kVectorBytes) Numbered {
  std::array<unsigned char, 64> bytes;
  Numbered() { std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(1)); }
};

template <typename T>
void expect_the_bytes_of_every_place() {
  const Numbered numbered;
  for (std::size_t at = sizeof(T); at < kVectorBytes; at += sizeof(T)) {
    const auto* row = reinterpret_cast<const T*>(numbered.bytes.data() + at);
    for (std::int64_t v = 0; v < 2; ++v) {
      const Vector<T> x = unaligned_vector(row, v);
      const auto begin = at + static_cast<std::size_t>(v) * kVectorBytes;
      EXPECT_EQ(std::memcmp(&x, numbered.bytes.data() + begin, sizeof x), 0) << at << ' ' << v;
    }
  }
}

TEST(UnalignedVector, HasTheBytesOfItsPlace) {
  expect_the_bytes_of_every_place<bf16>();
  expect_the_bytes_of_every_place<float>();
  expect_the_bytes_of_every_place<double>();
}

TEST(ElementsToAlignment, AreThoseInFrontOfTheNextVector) {
  const Numbered numbered;
  for (int at = 0; at < 8; ++at) {
    const auto* row = reinterpret_cast<const bf16*>(numbered.bytes.data()) + at;
    const int head = elements_to_alignment(row);
    EXPECT_EQ(head, (8 - at) % 8);
    EXPECT_TRUE(is_aligned(row + head));
  }
}

}  // namespace
}  // namespace lossgrid
