// SPDX-License-Identifier: Apache-2.0
#include "harness/core/process/process_cores.h"

#include <gmock/gmock.h>

namespace lossgrid {
namespace {

using testing::ElementsAre;

TEST(CoreShareOf, IsAnEqualPartWhereNobodyIsBound) {
  const std::vector<ProcessCores> processes{{0, {0, 1}}, {1, {0, 1}}, {2, {0, 1}}, {3, {0, 1}}};
  EXPECT_DOUBLE_EQ(process_core_share(0, 0, 4, processes), 0.5);
  EXPECT_DOUBLE_EQ(process_core_share(1, 0, 2, processes), 1.0);  // ranks 2 and 3 are idle
  EXPECT_DOUBLE_EQ(process_core_share(0, 0, 1, processes), 2.0);
  EXPECT_DOUBLE_EQ(process_core_share(3, 2, 2, processes), 1.0);  // stage of two ranks
  EXPECT_DOUBLE_EQ(process_core_share(0, 2, 2, processes), 0.0);
  EXPECT_EQ(core_count(0, 4, processes), 2);
}

TEST(CoreShareOf, IsTheOwnCoresOfBoundProcesses) {
  const std::vector<ProcessCores> processes{{4, {0, 1}}, {5, {2, 3}}, {6, {3}}};
  EXPECT_DOUBLE_EQ(process_core_share(4, 0, 8, processes), 2.0);
  EXPECT_DOUBLE_EQ(process_core_share(5, 0, 8, processes), 1.5);
  EXPECT_DOUBLE_EQ(process_core_share(6, 0, 8, processes), 0.5);
  EXPECT_DOUBLE_EQ(process_core_share(6, 0, 6, processes), 0.0);  // rank 6 takes no part
  EXPECT_EQ(core_count(0, 8, processes), 4);
  EXPECT_EQ(core_count(0, 5, processes), 2);
}

TEST(OwnCores, AreSomeAndInOrder) {
  const std::vector<int> cores = own_cores();
  ASSERT_FALSE(cores.empty());
  EXPECT_TRUE(std::is_sorted(cores.begin(), cores.end()));
}

}  // namespace
}  // namespace lossgrid
