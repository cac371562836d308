// SPDX-License-Identifier: Apache-2.0
// Tests of what trials of one cause are, and of pairs and settings that count.
#include "harness/hunt/failure_groups.h"

#include <gtest/gtest.h>

#include "harness/hunt/pair_coverage.h"
#include "harness/hunt/supported_settings.h"

namespace lossgrid {
namespace {

FailingTrial trial_of(const std::string& text, const std::string& implementation,
                      const std::string& grid, const std::string& check) {
  return {parse_case(text), implementation, {parse_grid(grid)}, check};
}

TEST(FailureGroups, HoldTrialsWithAllSettingsOfTheSmallest) {
  FailureGroups groups;
  const auto first =
      trial_of("lens=5 temperature=2 mask=all", "fused:chunk_tokens=1", "tp2cp2", "loss");
  EXPECT_FALSE(groups.count(first));
  groups.add(first, trial_of("lens=1 temperature=2 mask=all", "fused", "tp1cp2", "loss"), {});
  EXPECT_TRUE(
      groups.count(trial_of("lens=9 temperature=3 values=ties", "fused", "tp1cp4", "loss")));
  EXPECT_FALSE(groups.count(trial_of("lens=9 values=ties", "fused", "tp1cp4", "loss")));
  EXPECT_FALSE(groups.count(trial_of("lens=9 temperature=3", "fused", "tp4cp1", "loss")));
  EXPECT_FALSE(groups.count(trial_of("lens=9 temperature=3", "fused", "tp1cp2", "logprobs")));
  EXPECT_FALSE(groups.count(trial_of("lens=9 temperature=3", "cp_local", "tp1cp2", "loss")));
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups.records()[0].trials, 2);
  EXPECT_EQ(groups.records()[0].implementations, std::vector<std::string>{"fused"});
}

TEST(FailureGroups, JoinOtherImplementationsWithTheSameSmallestTrial) {
  FailureGroups groups;
  const auto smallest = trial_of("lens=1 temperature=2", "fused", "tp1cp1", "loss");
  groups.add(trial_of("lens=5 temperature=2", "fused", "tp1cp1", "loss"), smallest, {});
  groups.add(trial_of("lens=6 temperature=4", "cp_local", "tp1cp1", "loss"), smallest, {});
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups.records()[0].implementations, (std::vector<std::string>{"fused", "cp_local"}));
  EXPECT_TRUE(groups.count(trial_of("lens=7 temperature=5", "cp_local", "tp1cp1", "loss")));
}

TEST(PairCoverage, CountsAPairOnceBothDecide) {
  const auto settings =
      settings_of(parse_case("lens=3 temperature=2 values=ties dtype=bf16"), Grid());
  ASSERT_EQ(settings.size(), 3u);
  PairCoverage coverage;
  EXPECT_EQ(coverage.open_pairs(settings), 3);
  coverage.add(settings, {settings[0], settings[2]});
  EXPECT_EQ(coverage.open_pairs(settings), 2);
  std::int64_t drawn = 0;
  std::int64_t decided = 0;
  for (const auto& [kinds, count] : coverage.by_kinds()) {
    drawn += count.drawn;
    decided += count.decided;
  }
  EXPECT_EQ(drawn, 3);
  EXPECT_EQ(decided, 1);
}

TEST(SupportedSettings, RefuseWhatNeverRan) {
  const auto with = settings_of(parse_case("lens=3 temperature=2 values=ties"), Grid());
  const auto other = settings_of(parse_case("lens=3 values=ties"), Grid());
  SupportedSettings supported;
  for (int k = 0; k < 3; ++k) supported.learn(with, false);
  EXPECT_FALSE(supported.refuses_any(with));  // too few
  supported.learn(with, false);
  EXPECT_TRUE(supported.refuses_any(with));
  EXPECT_TRUE(supported.refuses_any(other));
  supported.learn(other, true);
  EXPECT_FALSE(supported.refuses_any(other));
  EXPECT_TRUE(supported.refuses_any(with));
}

}  // namespace
}  // namespace lossgrid
