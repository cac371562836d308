// SPDX-License-Identifier: Apache-2.0
#include "reports/text/number_text.h"

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

TEST(NumberText, HasTheFormOfItsUnit) {
  EXPECT_EQ(number_text(12, Unit::count), "12");
  EXPECT_EQ(number_text(1.004, Unit::factor), "1.00x");
  EXPECT_EQ(number_text(0.314, Unit::percent), "31%");
  EXPECT_EQ(number_text(1'234'567, Unit::nanoseconds), "1.235");
  EXPECT_EQ(number_text(812, Unit::per_second), "812");
  EXPECT_EQ(number_text(81'234, Unit::per_second), "81.2k");
  EXPECT_EQ(number_text(8.123e6, Unit::per_second), "8.12M");
  EXPECT_EQ(number_text(2.04e9, Unit::bytes_per_second), "2.0");
  EXPECT_EQ(number_text(3e13, Unit::flops_per_second), "30000.0");
  EXPECT_EQ(number_text({}, Unit::percent), "-");
}

TEST(NumberText, HeadsOfColumnsHaveTheUnitsThatTextsLack) {
  EXPECT_EQ(column_head({.title = "comm", .unit = Unit::percent}), "comm");
  EXPECT_EQ(column_head({.title = "waiting", .unit = Unit::nanoseconds}), "waiting ms");
  EXPECT_EQ(column_head({.title = "moved", .unit = Unit::bytes_per_second}), "GB/s");
  EXPECT_EQ(column_head({.title = "computed", .unit = Unit::flops_per_second}), "GFLOP/s");
}

}  // namespace
}  // namespace lossgrid
