// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/timing/gpu_rows.h"

#include <gmock/gmock.h>

namespace lossgrid {
namespace {

using ::testing::ElementsAre;

TEST(GpuRows, AreOfTheRoundsBehindTheWarmUp) {
  GpuStates states;
  states.by_round = {{345, 405, 70'000, 30, 0},  // idle
                     {1980, 3201, 650'000, 60, 4},
                     {1905, 3201, 699'500, 64, 0},
                     {1800, 3201, 690'000, 66, 64}};
  const GpuRow row = gpu_row(3, states, 1).value();
  EXPECT_EQ(row.rank, 3);
  EXPECT_EQ(row.reason, "");
  EXPECT_EQ(row.least_sm_mhz, 1800);
  EXPECT_EQ(row.most_sm_mhz, 1980);
  EXPECT_EQ(row.least_memory_mhz, 3201);
  EXPECT_EQ(row.most_watts, 699.5);
  EXPECT_EQ(row.most_celsius, 66);
  EXPECT_EQ(row.slow_rounds, 1) << "1905 is above 95 % of 1980";
  EXPECT_THAT(row.limited_by, ElementsAre("sw_power_cap", "hw_thermal_slowdown"));
}

TEST(GpuRows, AreMissingWithoutAGpuAndHaveAReasonWithoutNvml) {
  EXPECT_FALSE(gpu_row(0, {}, 1).has_value());
  GpuStates unknown;
  unknown.missing_reason = "no library";
  EXPECT_EQ(gpu_row(1, unknown, 1)->reason, "no library");
  GpuLog none("");
  none.begin_round();
  EXPECT_TRUE(none.take().by_round.empty());
  GpuLog not_found("not a GPU");
  not_found.begin_round();
  EXPECT_NE(not_found.take().missing_reason, "");
}

}  // namespace
}  // namespace lossgrid
