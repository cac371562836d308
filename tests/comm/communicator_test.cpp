// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/communicator.h"

#include <set>

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

// Names are keys of reports: all there, all different, as documented.
TEST(Communicator, OperationsHaveNames) {
  EXPECT_EQ(name(ReduceOp::sum), "sum");
  EXPECT_EQ(name(ReduceOp::max), "max");
  EXPECT_EQ(name(ReduceOp::min), "min");
  EXPECT_EQ(name(Collective::all_reduce), "all_reduce");
  EXPECT_EQ(name(Collective::all_gather), "all_gather");
  EXPECT_EQ(name(Collective::reduce_scatter), "reduce_scatter");
  EXPECT_EQ(name(Collective::broadcast), "broadcast");
  EXPECT_EQ(name(Collective::barrier), "barrier");
}

TEST(Communicator, EveryCollectiveHasAName) {
  std::set<std::string_view> names;
  for (int i = 0; i < kCollectives; ++i) names.insert(name(static_cast<Collective>(i)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kCollectives));
}

}  // namespace
}  // namespace lossgrid
