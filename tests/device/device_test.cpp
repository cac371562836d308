// SPDX-License-Identifier: Apache-2.0
#include "harness/device/device.h"

#include <cmath>
#include <limits>
#include <optional>

#include <gmock/gmock.h>

#include "harness/core/error.h"
#include "harness/core/process/sanitizers.h"

namespace lossgrid {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

// Counts requested bytes, without guard bands and rounding: the figure of predictions.
TEST(Device, AccountsForExactlyWhatWasAskedFor) {
  const auto device = make_cpu_device();
  EXPECT_EQ(device->name(), "cpu");
  device->tracker().begin_phase("forward");
  std::optional<Buffer> logits(device->allocate(1001, "logits"));
  const Buffer lse = device->allocate(24, "lse");
  EXPECT_EQ(device->tracker().live_bytes(), 1025);
  logits.reset();
  device->tracker().end_phase();
  EXPECT_EQ(device->tracker().live_bytes(), 24);
  const PhaseMemory& phase = device->tracker().phases().at(0);
  EXPECT_EQ(phase.peak_bytes, 1025);
  EXPECT_EQ(phase.end_bytes, 24);
  EXPECT_THAT(phase.by_tag_bytes, ElementsAre(Pair("logits", 1001), Pair("lse", 24)));
}

// A refused allocation leaves no trace in the account or the buffers.
TEST(Device, TooMuchIsAnErrorOfMemory) {
#if LOSSGRID_ASAN || LOSSGRID_TSAN
  GTEST_SKIP() << "sanitizers end the process at such an allocation";
#endif
  const auto device = make_cpu_device();
  try {
    device->allocate(std::numeric_limits<std::size_t>::max() / 4, "huge");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_enough_memory);
  }
  EXPECT_EQ(device->tracker().live_bytes(), 0);
  EXPECT_THAT(device->take_broken_guards(), IsEmpty());
}

TEST(DeviceArray, HoldsPoisonedElements) {
  const auto device = make_cpu_device();
  DeviceArray<float> array(*device, 5, "array");
  EXPECT_EQ(array.size(), 5u);
  EXPECT_EQ(array.end() - array.begin(), 5);
  for (const float value : array) EXPECT_TRUE(std::isnan(value));
  array[4] = 3.0f;
  EXPECT_EQ(array.data()[4], 3.0f);
  EXPECT_TRUE(array.buffer().guards_intact());
  EXPECT_EQ(device->tracker().live_bytes(), 20);
  array = DeviceArray<float>();
  EXPECT_EQ(array.size(), 0u);
  EXPECT_EQ(device->tracker().live_bytes(), 0);
}

TEST(DeviceArray, WriteBehindTheLastElementIsSeen) {
  const auto device = make_cpu_device();
  DeviceArray<bf16> array(*device, 3, "array");
  *(array.data() + 3) = bf16(0.0f);
  EXPECT_THAT(device->take_broken_guards(), ElementsAre("array"));
}

}  // namespace
}  // namespace lossgrid
