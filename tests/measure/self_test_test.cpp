// SPDX-License-Identifier: Apache-2.0
// Right tools pass the self test, and every defect of a tool fails only the check of this tool.
// Clocks and sleeps are made up, so that a busy machine changes nothing.
#include "harness/measure/self_test.h"

#include <cstring>
#include <memory>

#include <gmock/gmock.h>

namespace lossgrid {
namespace {

constexpr std::int64_t kTickNs = 1000;  // between two readings of the clock
constexpr std::size_t kBytes = 1234567;

/// Tools whose time passes only at readings of the clock and in sleeps.
MeasuringTools made_up_tools(double sleep_factor = 1.0) {
  MeasuringTools tools;
  auto now_ns = std::make_shared<std::int64_t>(0);
  tools.now = [now_ns] { return *now_ns += kTickNs; };
  tools.sleep = [now_ns, sleep_factor](std::chrono::nanoseconds time) {
    *now_ns += static_cast<std::int64_t>(static_cast<double>(time.count()) * sleep_factor);
  };
  return tools;
}

std::vector<std::string> failed(const MeasuringTools& tools) {
  std::vector<std::string> names;
  for (const SelfTestCheck& check : run_self_test(tools)) {
    if (!check.passed) names.push_back(check.name);
  }
  return names;
}

using testing::ElementsAre;
using testing::IsEmpty;

TEST(SelfTest, PassesWhenAllIsRight) {
  const std::vector<SelfTestCheck> checks = run_self_test(made_up_tools());
  ASSERT_EQ(checks.size(), 3u);
  EXPECT_EQ(checks[0].name, "allocation");
  EXPECT_EQ(checks[0].expected, kBytes);
  EXPECT_EQ(checks[0].measured, kBytes);
  EXPECT_EQ(checks[0].unit, "bytes");
  EXPECT_EQ(checks[1].name, "sleep");
  EXPECT_EQ(checks[1].expected, 5e6);
  EXPECT_EQ(checks[1].measured, 5e6 + kTickNs);
  EXPECT_EQ(checks[2].name, "copy");
  EXPECT_DOUBLE_EQ(checks[2].measured, (8 << 20) * 1e9 / kTickNs);
  for (const SelfTestCheck& check : checks) EXPECT_TRUE(check.passed) << check.name << check.detail;
}

TEST(SelfTest, SeesKnownBytesAndSleepsLongEnoughOnThisMachine) {
  const std::vector<SelfTestCheck> checks = run_self_test();
  EXPECT_TRUE(checks[0].passed) << checks[0].detail;
  EXPECT_GE(checks[1].measured, 5e6);
  EXPECT_TRUE(checks[2].passed) << checks[2].detail;
}

TEST(SelfTest, FindsBytesThatAreNotCounted) {
  MeasuringTools tools = made_up_tools();
  tools.allocate = [](Device& device, std::size_t bytes) {
    return device.allocate(bytes - 1, "less");
  };
  EXPECT_THAT(failed(tools), ElementsAre("allocation"));
}

TEST(SelfTest, FindsBytesThatAreGivenBackTooEarly) {
  MeasuringTools tools = made_up_tools();
  tools.allocate = [](Device& device, std::size_t bytes) {
    device.allocate(bytes, "brief");  // the peak is right, but nothing stays
    return Buffer();
  };
  EXPECT_THAT(failed(tools), ElementsAre("allocation"));
}

TEST(SelfTest, FindsBytesThatNeverReturn) {
  MeasuringTools tools = made_up_tools();
  tools.allocate = [](Device& device, std::size_t bytes) {
    Buffer buffer = device.allocate(bytes - 1, "meter");
    device.tracker().allocated("leak", 1);  // live and peak are right
    return buffer;
  };
  EXPECT_THAT(failed(tools), ElementsAre("allocation"));
}

TEST(SelfTest, FindsAPeakThatCountsTwice) {
  MeasuringTools tools = made_up_tools();
  tools.allocate = [](Device& device, std::size_t bytes) {
    device.allocate(bytes + 1, "brief");
    return device.allocate(bytes, "meter");
  };
  EXPECT_THAT(failed(tools), ElementsAre("allocation"));
}

TEST(SelfTest, FindsAClockThatIsTooSlowOrTooFast) {
  EXPECT_THAT(failed(made_up_tools(0.99)), ElementsAre("sleep"));
  EXPECT_THAT(failed(made_up_tools(9.9)), IsEmpty());  // a busy machine
  EXPECT_THAT(failed(made_up_tools(10.1)), ElementsAre("sleep"));
}

TEST(SelfTest, FindsAClockThatStandsStill) {
  MeasuringTools tools = made_up_tools();
  tools.now = [] { return std::int64_t{42}; };
  EXPECT_THAT(failed(tools), ElementsAre("sleep", "copy"));
}

TEST(SelfTest, OneDisturbedSleepIsNoFailure) {
  MeasuringTools tools = made_up_tools();
  tools.sleep = [sleep = tools.sleep, calls = 0](std::chrono::nanoseconds time) mutable {
    sleep(++calls == 2 ? 100 * time : time);
  };
  EXPECT_THAT(failed(tools), IsEmpty());
}

TEST(SelfTest, FindsACopyThatDoesNothing) {
  MeasuringTools tools = made_up_tools();
  tools.copy = [](const void*, void*, std::size_t) {};
  EXPECT_THAT(failed(tools), ElementsAre("copy"));
}

TEST(SelfTest, FindsACopyThatIsMadeOnlyOnce) {
  MeasuringTools tools = made_up_tools();
  tools.copy = [done = false](const void* from, void* to, std::size_t bytes) mutable {
    if (!done) std::memcpy(to, from, bytes);
    done = true;
  };
  EXPECT_THAT(failed(tools), ElementsAre("copy"));
}

TEST(SelfTest, FindsACopyThatLeavesOutTheLastByte) {
  MeasuringTools tools = made_up_tools();
  tools.copy = [](const void* from, void* to, std::size_t bytes) {
    std::memcpy(to, from, bytes - 1);
  };
  EXPECT_THAT(failed(tools), ElementsAre("copy"));
}

TEST(SelfTest, FindsARateThatNoMachineHas) {
  MeasuringTools tools = made_up_tools();
  tools.now = [now_ns = std::make_shared<std::int64_t>(0), calls = 0]() mutable {
    return *now_ns += ++calls > 10 ? 800 : 5'000'000;  // five sleeps, then 8 MiB in 800 ns
  };
  EXPECT_THAT(failed(tools), ElementsAre("copy"));
}

}  // namespace
}  // namespace lossgrid
