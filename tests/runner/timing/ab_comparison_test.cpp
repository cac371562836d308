// SPDX-License-Identifier: Apache-2.0
// A/B comparisons of launches that never ran.
#include "harness/runner/timing/ab_comparison.h"

#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lossgrid {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Returns the time of one phase of an implementation in its place of a process, for every round.
using TimeOf = std::function<std::int64_t(const AbProcess&, std::size_t place, std::size_t round)>;

/// Samples of eight rounds; the first two are absurd.
TimingRow made_row(const AbProcess& process, std::size_t place, const std::string& phase,
                   const TimeOf& time) {
  TimingRow row;
  row.implementation = process.implementations[place];
  row.phase = phase;
  for (std::size_t round = 0; round < 8; ++round) {
    const bool counts = round >= static_cast<std::size_t>(kAbWarmUpRounds);
    row.time.samples_ns.push_back(counts ? time(process, place, round)
                                         : static_cast<std::int64_t>(1 + 1'000'000 * place));
  }
  return row;
}

class AbComparison : public testing::Test {
 protected:
  AbOutcome compare(const TimeOf& time) {
    return compare_sides(
        request_,
        [&](const AbProcess& process) {
          processes_.push_back(process);
          TimingRecord timing;
          for (std::size_t place = 0; place < process.implementations.size(); ++place) {
            for (const std::string& phase : phases_) {
              timing.rows.push_back(made_row(process, place, phase, time));
              if (const auto ratio = ceiling_ratios_.find(process.build);
                  ratio != ceiling_ratios_.end()) {
                timing.rows.back().ceiling = "read";
                timing.rows.back().ceiling_ratio = ratio->second;
              }
            }
          }
          return timing;
        },
        [&](const std::vector<AbRecord>& so_far) {
          looks_.push_back(so_far.front().launch_ratios.size());
        });
  }

  AbRequest request_{{"x"}, {"y"}, false, {}, 0.1, kLookAlpha, 5};
  std::vector<std::string> phases_{"forward"};
  std::map<Build, double> ceiling_ratios_;
  std::vector<AbProcess> processes_;
  std::vector<std::size_t> looks_;
};

TEST_F(AbComparison, PairsSamplesOfTheSameRound) {
  // The machine slows down from round to round; the ratio of the two medians is 1.
  const AbOutcome outcome =
      compare([](const AbProcess& process, std::size_t place, std::size_t round) {
        const bool slower = process.implementations[place] == "y" && round != 4 && round != 5;
        return static_cast<std::int64_t>(1000 * (round - 1)) * (slower ? 5 : 4);
      });
  ASSERT_EQ(outcome.records.size(), 1u);
  const AbRecord& record = outcome.records[0];
  EXPECT_EQ(record.phase, "forward");
  EXPECT_EQ(record.a, "x");
  EXPECT_EQ(record.b, "y");
  EXPECT_EQ(record.verdict, AbVerdict::regressed);
  EXPECT_EQ(record.pairs, 6);
  EXPECT_EQ(record.seed, 5u);
  EXPECT_EQ(record.margin, 0.1);
  ASSERT_EQ(record.launch_ratios.size(), 12u);
  EXPECT_THAT(record.launch_ratios, Each(1.25));
  ASSERT_EQ(processes_.size(), 12u);
  std::set<std::vector<std::string>> orders;
  for (std::size_t k = 0; k < processes_.size(); ++k) {
    EXPECT_EQ(processes_[k].order_seed, 5 + k);
    orders.insert(processes_[k].implementations);
  }
  EXPECT_THAT(orders, ElementsAre(ElementsAre("x", "y"), ElementsAre("y", "x")));
}

TEST_F(AbComparison, PlacesOfASelfCheckChange) {
  request_.b = request_.a;
  const AbOutcome outcome = compare([](const AbProcess&, std::size_t place, std::size_t) {
    return place == 0 ? 1000 : 1250;  // the second place costs more
  });
  ASSERT_EQ(outcome.records.size(), 1u);
  EXPECT_TRUE(outcome.records[0].is_self_check());
  EXPECT_THAT(outcome.records[0].launch_ratios, Each(AnyOf(1.25, 0.8)));
  EXPECT_EQ(outcome.records[0].verdict, AbVerdict::inconclusive);
  EXPECT_THAT(looks_, ElementsAre(12, 20, 30));
}

TEST_F(AbComparison, RunsEachOfTwoBuildsInItsOwnProcess) {
  request_ = {{"x", Build::base}, {"x", Build::head}, true, {}, 0.1, kLookAlpha, 3};
  const AbOutcome outcome = compare([](const AbProcess& process, std::size_t, std::size_t round) {
    // Paired as samples of the same round, the two would have no common ratio.
    const auto step = static_cast<std::int64_t>(process.build == Build::base ? round : 8 - round);
    return (process.build == Build::base ? 1000 : 800) + step;
  });
  ASSERT_EQ(outcome.records.size(), 1u);
  EXPECT_EQ(outcome.records[0].a, "x (base)");
  EXPECT_EQ(outcome.records[0].b, "x (head)");
  EXPECT_EQ(outcome.records[0].verdict, AbVerdict::improved);
  EXPECT_THAT(outcome.records[0].launch_ratios, Each(803.5 / 1004.5));
  ASSERT_EQ(processes_.size(), 24u);
  std::set<Build> first;
  for (std::size_t k = 0; k < 24; k += 2) {
    EXPECT_NE(processes_[k].build, processes_[k + 1].build);
    EXPECT_EQ(processes_[k].order_seed, processes_[k + 1].order_seed);
    EXPECT_THAT(processes_[k].implementations, ElementsAre("x"));
    first.insert(processes_[k].build);
  }
  EXPECT_EQ(first.size(), 2u);
}

TEST_F(AbComparison, TimesOfTwoProcessesAreRelativeToTheirCeilings) {
  request_ = {{"x", Build::base}, {"x", Build::head}, true, {}, 0.1, kLookAlpha, 3};
  ceiling_ratios_ = {{Build::base, 0.75}, {Build::head, 0.5}};
  const TimeOf the_machine_slowed_down = [](const AbProcess& process, std::size_t, std::size_t) {
    return process.build == Build::base ? 1000 : 9000;
  };
  EXPECT_THAT(compare(the_machine_slowed_down).records[0].launch_ratios, Each(1.5));
  ceiling_ratios_.erase(Build::base);  // it has no ceilings
  EXPECT_THAT(compare(the_machine_slowed_down).records[0].launch_ratios, Each(9.0));
}

TEST_F(AbComparison, ADecidedPhaseTakesNoMoreLaunches) {
  phases_ = {"backward", "forward", "forward_backward"};
  request_.phases = {"forward", "backward"};
  std::size_t rows = 0;
  const AbOutcome outcome =
      compare([&](const AbProcess& process, std::size_t place, std::size_t) -> std::int64_t {
        const std::string& phase = phases_[rows++ / 6 % 3];
        const bool slow = phase == "backward" && processes_.size() % 2 == 0;
        return process.implementations[place] == "y" && slow ? 2000 : 1000;
      });
  ASSERT_EQ(outcome.records.size(), 2u);
  EXPECT_EQ(outcome.records[0].phase, "forward");
  EXPECT_EQ(outcome.records[0].verdict, AbVerdict::ok);
  EXPECT_EQ(outcome.records[0].launch_ratios.size(), 12u);
  EXPECT_EQ(outcome.records[1].phase, "backward");
  EXPECT_EQ(outcome.records[1].verdict, AbVerdict::inconclusive);
  EXPECT_EQ(outcome.records[1].launch_ratios.size(), 30u);
}

TEST_F(AbComparison, HasNoVerdictIfALaunchFails) {
  struct Failure {
    TimingRecord timing;
    TimingStatus status;
    const char* reason;
  };
  std::vector<Failure> failures(4);
  failures[0] = {{}, TimingStatus::failed, "outputs"};
  failures[1] = {{}, TimingStatus::error, "signal 9"};
  failures[2] = {{}, TimingStatus::skipped, "y: too large"};
  failures[3] = {{}, TimingStatus::skipped, "x and y have no phase in common among backward"};
  for (std::size_t k = 0; k < 2; ++k) {
    failures[k].timing.status = failures[k].status;
    failures[k].timing.reason = failures[k].reason;
  }
  failures[2].timing.skipped = {{"y", "too large"}};
  request_.phases = {"backward"};
  for (const Failure& failure : failures) {
    int launches = 0;
    const AbOutcome outcome = compare_sides(
        request_,
        [&](const AbProcess&) {
          ++launches;
          return failure.timing;
        },
        [](const std::vector<AbRecord>&) {});
    EXPECT_EQ(launches, 1);
    EXPECT_EQ(outcome.status, failure.status);
    EXPECT_EQ(outcome.reason, failure.reason);
    EXPECT_TRUE(outcome.records.empty());
  }
}

}  // namespace
}  // namespace lossgrid
