// SPDX-License-Identifier: Apache-2.0
// The timing protocol with made-up clocks, one for every rank, independent of this machine's speed.
#include "harness/measure/sampler.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/comm/thread/thread_communicator.h"

namespace lossgrid {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;

/// Clock and diary of one rank.
struct FakeRank {
  int rank = 0;
  std::int64_t now_ns = 0;
  std::int64_t communication_ns = 0;
  std::vector<std::string> diary;  // "a0": item a, step 0 ran
};

/// Item that takes `duration(rank, step, k-th run of that step)`.
class FakeItem final : public SampledItem {
 public:
  using Duration = std::function<std::int64_t(int rank, std::size_t step, std::int64_t k)>;
  FakeItem(std::string label, std::size_t steps, FakeRank& rank, Duration duration)
      : label_(std::move(label)), rank_(rank), duration_(std::move(duration)), runs_(steps, 0) {}
  std::size_t steps() const override { return runs_.size(); }
  void prepare(std::size_t step, bool last) override {
    rank_.now_ns += 1'000'000;  // not timed
    rank_.communication_ns += 500;
    if (last) rank_.diary.push_back("last " + name(step));
  }
  void run(std::size_t step) override {
    rank_.diary.push_back(name(step));
    rank_.communication_ns += 7;
    rank_.now_ns += duration_(rank_.rank, step, runs_[step]++);
  }
  void finish(std::size_t step) override {
    rank_.now_ns += 1'000'000;
    rank_.diary.push_back("finish " + name(step));
  }

 private:
  std::string name(std::size_t step) const { return label_ + std::to_string(step); }

  std::string label_;
  FakeRank& rank_;
  Duration duration_;
  std::vector<std::int64_t> runs_;
};

struct RankView {
  FakeRank rank;
  Samples samples;
};

/// Samples of items "a" (two steps), "b" and "c" (one step each) on `ranks` ranks.
std::vector<RankView> sample(int ranks, const SamplerRequest& request,
                             const FakeItem::Duration& duration) {
  std::vector<RankView> views(static_cast<std::size_t>(ranks));
  const RanksOutcome outcome = run_thread_ranks(
      ranks,
      [&](Communicator& world) {
        RankView& view = views[static_cast<std::size_t>(world.rank())];
        view.rank.rank = world.rank();
        FakeItem a("a", 2, view.rank, duration);
        FakeItem b("b", 1, view.rank, duration);
        FakeItem c("c", 1, view.rank, duration);
        SampledItem* items[] = {&a, &b, &c};
        view.samples = take_samples(items, world, view.rank.communication_ns, request,
                                    [&view] { return view.rank.now_ns; });
      },
      std::chrono::seconds(60));
  EXPECT_TRUE(outcome.all_ok()) << outcome.ranks[0].message;
  return views;
}

SamplerRequest quick(std::int64_t min_samples) {
  SamplerRequest request;
  request.stop.min_samples = min_samples;
  request.warm_up_ns = 0;
  return request;
}

TEST(Sampler, ASampleIsTheTimeOfTheSlowestRank) {
  const auto views = sample(3, quick(4), [](int rank, std::size_t step, std::int64_t) {
    return 100 + 10 * rank + static_cast<std::int64_t>(step);
  });
  for (const RankView& view : views) {
    ASSERT_EQ(view.samples.items.size(), 3u);
    ASSERT_EQ(view.samples.items[0].size(), 2u);
    EXPECT_THAT(view.samples.items[0][0].slowest_ns, ElementsAre(120, 120, 120, 120));
    EXPECT_THAT(view.samples.items[0][1].slowest_ns, Each(121));
    EXPECT_THAT(view.samples.items[2][0].own_ns, Each(100 + 10 * view.rank.rank));
    EXPECT_THAT(view.samples.items[2][0].own_communication_ns, Each(7));
  }
}

TEST(Sampler, ADeviceHasATimerOfItsOwn) {
  struct FakeTimer final : DeviceTimer {
    void start() override { running = true; }
    std::int64_t stop() override {
      EXPECT_TRUE(std::exchange(running, false));
      return 42;
    }
    bool running = false;
  } timer;
  SamplerRequest request = quick(4);
  request.timer = &timer;
  request.before_sample = [&] { EXPECT_FALSE(timer.running); };
  const auto views = sample(1, request, [&](int, std::size_t, std::int64_t) {
    EXPECT_TRUE(timer.running);
    return 100;
  });
  EXPECT_THAT(views[0].samples.items[0][1].slowest_ns, ElementsAre(42, 42, 42, 42));
  EXPECT_FALSE(timer.running);
}

TEST(Sampler, StopsWhenEveryMedianIsKnown) {
  const auto same = sample(2, quick(10), [](int, std::size_t, std::int64_t) { return 100; });
  EXPECT_EQ(same[0].samples.rounds, 10);
  EXPECT_EQ(same[0].samples.stopped_by, StopReason::target);
  // One step whose median needs many samples: 80 % at 100 and every fifth sample at 140.
  SamplerRequest request = quick(10);
  request.stop.target_stderr_ratio = 0.05;
  const auto noisy = sample(2, request, [](int, std::size_t step, std::int64_t k) {
    return step == 1 && k % 5 == 0 ? 140 : 100;
  });
  EXPECT_GT(noisy[0].samples.rounds, 10);
  EXPECT_LT(noisy[0].samples.rounds, 60);
  EXPECT_EQ(noisy[0].samples.stopped_by, StopReason::target);
}

std::int64_t never_known(int /*rank*/, std::size_t /*step*/, std::int64_t k) {
  return k % 2 == 0 ? 100 : 200;
}

TEST(Sampler, StopsWhenTheTimeIsOverOnAllRanksInTheSameRound) {
  SamplerRequest request = quick(10);
  request.stop.max_time_ns = 21'000'000;  // a round prepares for 4 ms
  const auto views = sample(3, request, [](int rank, std::size_t step, std::int64_t k) {
    // The clocks of the other ranks are far ahead; only the clock of rank 0 counts.
    return never_known(rank, step, k) + (rank > 0 ? 50'000'000 : 0);
  });
  for (const RankView& view : views) {
    EXPECT_EQ(view.samples.stopped_by, StopReason::time_budget);
    EXPECT_EQ(view.samples.rounds, 7);  // the sixth passes 21 ms, one more is the last
  }
}

TEST(Sampler, StopsAtTheMostSamples) {
  SamplerRequest request = quick(4);
  request.stop.max_samples = 15;
  const auto views = sample(2, request, never_known);
  EXPECT_EQ(views[1].samples.rounds, 15);
  EXPECT_EQ(views[1].samples.stopped_by, StopReason::most_samples);
}

TEST(Sampler, WarmUpRunsAreNoSamples) {
  SamplerRequest request = quick(5);
  request.warm_up_ns = 9'000'000;  // three rounds of preparing for 4 ms
  const auto views =
      sample(2, request, [](int, std::size_t, std::int64_t k) { return k < 3 ? 10'000 : 100; });
  EXPECT_EQ(views[0].samples.warm_up_rounds, 3);
  for (const auto& item : views[0].samples.items) {
    for (const StepSamples& step : item) EXPECT_THAT(step.slowest_ns, Each(100));
  }
  const auto at_least_one = sample(2, quick(5), [](int, std::size_t, std::int64_t) { return 100; });
  EXPECT_EQ(at_least_one[0].samples.warm_up_rounds, 1);
}

TEST(Sampler, FinishFollowsTheLastRunOfEveryStepOnce) {
  const auto views = sample(2, quick(4), [](int, std::size_t, std::int64_t) { return 100; });
  const std::vector<std::string>& diary = views[1].rank.diary;
  const auto first_last = std::find(diary.begin(), diary.end(), "last a0");
  for (const std::string step : {"a0", "a1", "b0", "c0"}) {
    const auto finish = std::find(diary.begin(), diary.end(), "finish " + step);
    ASSERT_NE(finish, diary.end());
    EXPECT_EQ(*(finish - 1), step);
    EXPECT_EQ(*(finish - 2), "last " + step);
    EXPECT_EQ(std::count(diary.begin(), diary.end(), "finish " + step), 1);
    EXPECT_EQ(std::count(finish, diary.end(), step), 0) << "runs after the last";
  }
  ASSERT_NE(first_last, diary.end());
}

TEST(Sampler, TheOrderIsRandomAndTheSameOnAllRanks) {
  const auto views = sample(2, quick(20), [](int, std::size_t, std::int64_t) { return 100; });
  EXPECT_EQ(views[0].rank.diary, views[1].rank.diary);
  std::set<std::string> orders;
  std::string round;
  for (const std::string& line : views[0].rank.diary) {
    if (line.size() != 2) continue;
    round += line;
    if (round.size() == 8) orders.insert(std::exchange(round, ""));
  }
  EXPECT_THAT(orders.size(), Ge(4u));
  for (const std::string& order : orders) {
    EXPECT_NE(order.find("a0a1"), std::string::npos) << order;
  }
  SamplerRequest other = quick(20);
  other.order_seed = 2;
  EXPECT_NE(sample(1, other, [](int, std::size_t, std::int64_t) { return 100; })[0].rank.diary,
            views[0].rank.diary);
}

TEST(Sampler, DoesNotTimeTheStepBeforeASample) {
  std::vector<RankView> views(1);
  run_thread_ranks(
      1,
      [&](Communicator& world) {
        RankView& view = views[0];
        FakeItem item("a", 1, view.rank, [](int, std::size_t, std::int64_t) { return 100; });
        SampledItem* items[] = {&item};
        SamplerRequest request = quick(4);
        request.before_sample = [&] {
          view.rank.now_ns += 1'000'000;
          view.rank.diary.push_back("walk");
        };
        view.samples = take_samples(items, world, view.rank.communication_ns, request,
                                    [&view] { return view.rank.now_ns; });
      },
      std::chrono::seconds(60));
  EXPECT_THAT(views[0].samples.items[0][0].slowest_ns, ElementsAre(100, 100, 100, 100));
  EXPECT_EQ(std::count(views[0].rank.diary.begin(), views[0].rank.diary.end(), "walk"), 5);
}

TEST(Sampler, SamplesAreAtLeastATick) {
  const auto views = sample(1, quick(3), [](int, std::size_t, std::int64_t) { return 0; });
  EXPECT_THAT(views[0].samples.items[1][0].slowest_ns, Each(1));
}

}  // namespace
}  // namespace lossgrid
