// SPDX-License-Identifier: Apache-2.0
#include "harness/device/memory/buffer.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include <gmock/gmock.h>

#include "harness/device/device.h"

namespace lossgrid {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST(Buffer, FreshMemoryReadsAsNaNInEveryFloatingType) {
  const auto device = make_cpu_device();
  Buffer buffer = device->allocate(64, "fresh");
  for (const double value : buffer.as<double>()) EXPECT_TRUE(std::isnan(value));
  for (const float value : buffer.as<float>()) EXPECT_TRUE(std::isnan(value));
  for (const bf16 value : buffer.as<bf16>()) EXPECT_TRUE(std::isnan(static_cast<float>(value)));
  EXPECT_EQ(buffer.as<double>().size(), 8u);
  EXPECT_EQ(buffer.as<float>().size(), 16u);
  EXPECT_EQ(buffer.as<bf16>().size(), 32u);
}

// Unwritten differs from computed: arithmetic makes a NaN with another payload.
TEST(Buffer, PoisonIsNoComputedNaN) {
  const auto device = make_cpu_device();
  Buffer buffer = device->allocate(8, "fresh");
  volatile float zero = 0.0f;
  const float computed = zero / zero;
  const auto poison = std::bit_cast<std::uint32_t>(buffer.as<float>()[0]);
  EXPECT_NE(poison & 0x7fffffffu, std::bit_cast<std::uint32_t>(computed) & 0x7fffffffu);
  EXPECT_NE(buffer.as<bf16>()[0].bits & 0x7fffu, bf16(computed).bits & 0x7fffu);
  EXPECT_EQ(buffer.as<bf16>()[0].bits, kPoisonPattern);
}

TEST(Buffer, PoisonCoversEveryByteAndNoMore) {
  const auto device = make_cpu_device();
  for (const std::size_t bytes : {0u, 1u, 2u, 7u, 64u, 65u}) {
    Buffer buffer = device->allocate(bytes, "sized");
    EXPECT_EQ(buffer.bytes(), bytes);
    if (bytes > 0) std::memset(buffer.data(), 0, bytes);
    buffer.poison();
    for (std::size_t i = 0; i < bytes; ++i) EXPECT_NE(buffer.data()[i], std::byte{0}) << i;
    EXPECT_TRUE(buffer.guards_intact()) << bytes;
  }
}

TEST(Buffer, IsAlignedToCacheLines) {
  const auto device = make_cpu_device();
  for (const std::size_t bytes : {1u, 3u, 100u}) {
    const Buffer buffer = device->allocate(bytes, "aligned");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0u);
  }
}

TEST(Buffer, WritingAllOfItIsNoBreach) {
  const auto device = make_cpu_device();
  Buffer buffer = device->allocate(37, "full");
  std::memset(buffer.data(), 0xEE, buffer.bytes());
  EXPECT_TRUE(buffer.guards_intact());
  EXPECT_THAT(device->take_broken_guards(), IsEmpty());
}

// Tests the nearest byte on either side and the byte after it.
TEST(Buffer, SeesAWriteOnEitherSide) {
  const auto device = make_cpu_device();
  for (const std::ptrdiff_t offset : {-1, -64, 10, 10 + 63}) {
    Buffer buffer = device->allocate(10, "breached");
    std::byte& outside = *(buffer.data() + offset);
    const std::byte before = outside;
    outside = std::byte{0};
    EXPECT_FALSE(buffer.guards_intact()) << offset;
    EXPECT_THAT(device->take_broken_guards(), ElementsAre("breached"));
    outside = before;
    EXPECT_TRUE(buffer.guards_intact());
  }
}

TEST(Buffer, ABreachIsSeenAfterTheRelease) {
  const auto device = make_cpu_device();
  for (const std::ptrdiff_t offset : {-1, 16}) {
    const Buffer intact = device->allocate(16, "intact");
    {
      Buffer buffer = device->allocate(16, "gone");
      buffer.data()[offset] = std::byte{0};
    }
    EXPECT_THAT(device->take_broken_guards(), ElementsAre("gone"));
    EXPECT_THAT(device->take_broken_guards(), IsEmpty());  // reported once
  }
}

TEST(Buffer, ABreachIsSeenAfterAMove) {
  const auto device = make_cpu_device();
  Buffer first = device->allocate(16, "first");
  Buffer second = device->allocate(16, "second");
  first.data()[16] = std::byte{0};
  Buffer moved(std::move(first));
  EXPECT_FALSE(moved.guards_intact());
  EXPECT_THAT(device->take_broken_guards(), ElementsAre("first"));
  second.data()[-1] = std::byte{0};
  moved = std::move(second);  // releases the first breach, takes over the second
  EXPECT_EQ(moved.tag(), "second");
  EXPECT_THAT(device->take_broken_guards(), UnorderedElementsAre("first", "second"));
}

TEST(Buffer, MovesKeepContentAndAccount) {
  const auto device = make_cpu_device();
  Buffer a = device->allocate(8, "a");
  a.as<double>()[0] = 2.5;
  const std::byte* place = a.data();
  Buffer b(std::move(a));
  EXPECT_EQ(b.data(), place);
  EXPECT_EQ(b.as<double>()[0], 2.5);
  EXPECT_EQ(b.tag(), "a");
  EXPECT_EQ(device->tracker().live_bytes(), 8);
  Buffer c = device->allocate(16, "c");
  c = std::move(b);
  EXPECT_EQ(c.data(), place);
  EXPECT_EQ(device->tracker().live_bytes(), 8);
  c = Buffer();
  EXPECT_EQ(device->tracker().live_bytes(), 0);
  EXPECT_THAT(device->take_broken_guards(), IsEmpty());
}

TEST(Buffer, EmptyOnesAreHarmless) {
  Buffer nothing;
  EXPECT_EQ(nothing.bytes(), 0u);
  EXPECT_TRUE(nothing.guards_intact());
  Buffer moved(std::move(nothing));
  EXPECT_EQ(moved.data(), nullptr);
}

}  // namespace
}  // namespace lossgrid
