// SPDX-License-Identifier: Apache-2.0
// The time inside of collectives, with a clock that advances at every reading, and further inside
// of calls.
#include "harness/comm/timed_communicator.h"

#include <gtest/gtest.h>

#include "harness/comm/forwarding_communicator.h"
#include "ranks.h"

namespace lossgrid {
namespace {

/// Communicator whose collectives take `ns` each.
class SlowCommunicator final : public ForwardingCommunicator {
 public:
  SlowCommunicator(Communicator& inner, std::int64_t& now_ns, std::int64_t ns)
      : ForwardingCommunicator(inner), now_ns_(now_ns), ns_(ns) {}
  SlowCommunicator(std::unique_ptr<Communicator> inner, std::int64_t& now_ns, std::int64_t ns)
      : ForwardingCommunicator(std::move(inner)), now_ns_(now_ns), ns_(ns) {}

 private:
  void before(Collective, std::size_t) override { now_ns_ += ns_; }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> inner) override {
    return std::make_unique<SlowCommunicator>(std::move(inner), now_ns_, ns_);
  }

  std::int64_t& now_ns_;
  std::int64_t ns_;
};

TEST(TimeCalls, AddsUpTheTimeInsideOfEveryCollective) {
  expect_ranks_ok(2, [](Communicator& world) {
    std::int64_t now_ns = 0;
    std::int64_t total_ns = 0;
    SlowCommunicator slow(world, now_ns, 100);
    const auto timed = time_calls(slow, total_ns, [&now_ns] { return now_ns; });
    EXPECT_EQ(timed->rank(), world.rank());
    EXPECT_EQ(timed->size(), 2);
    EXPECT_EQ(timed->name(), "world");
    now_ns += 5000;  // outside
    EXPECT_EQ(total_ns, 0);
    std::vector<float> data(4, 1.0f);
    timed->all_reduce(std::span(data), ReduceOp::sum);
    EXPECT_EQ(data[0], 2);
    EXPECT_EQ(total_ns, 100);
    std::vector<float> all(8);
    timed->all_gather(std::span<const float>(data), std::span(all));
    now_ns += 5000;
    timed->reduce_scatter(std::span<const float>(all), std::span(data), ReduceOp::sum);
    timed->broadcast(std::span(data), 1);
    timed->barrier();
    EXPECT_EQ(total_ns, 500);
  });
}

TEST(TimeCalls, SeveralGroupsAndSplitsShareOneSum) {
  expect_ranks_ok(2, [](Communicator& world) {
    std::int64_t now_ns = 0;
    std::int64_t total_ns = 0;
    const ClockNs clock = [&now_ns] { return now_ns; };
    SlowCommunicator slow(world, now_ns, 100);
    SlowCommunicator slower(world, now_ns, 1000);
    const auto tp = time_calls(slow, total_ns, clock);
    const auto cp = time_calls(slower, total_ns, clock);
    tp->barrier();
    cp->barrier();
    EXPECT_EQ(total_ns, 1100);
    const auto part = tp->split(0, world.rank(), "part");
    EXPECT_EQ(total_ns, 1100);  // a split does not count
    part->barrier();
    EXPECT_EQ(total_ns, 1200);
  });
}

}  // namespace
}  // namespace lossgrid
