// SPDX-License-Identifier: Apache-2.0
#include "harness/hunt/reductions.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "harness/problem/batch/case_rules.h"

namespace lossgrid {
namespace {

FailingTrial failing(const std::string& text, const std::vector<std::string>& grids) {
  FailingTrial trial{parse_case(text), "fused:chunk_tokens=7", {}, "loss"};
  for (const std::string& grid : grids) trial.grids.push_back(parse_grid(grid));
  return trial;
}

bool has(const std::vector<FailingTrial>& trials, const std::string& text) {
  return std::any_of(trials.begin(), trials.end(),
                     [&](const FailingTrial& t) { return format_case(t.spec) == text; });
}

TEST(Reductions, TakeSequencesWithTheirBits) {
  const auto trials =
      smaller_trials(failing("lens=3+4+2 mask=011+0111+01 sample_mask=101 vocab=8", {"tp1cp1"}));
  EXPECT_TRUE(has(trials, "lens=4+2 mask=0111+01 sample_mask=01 vocab=8"));
  EXPECT_TRUE(has(trials, "lens=3+4 mask=011+0111 sample_mask=10 vocab=8"));
  EXPECT_TRUE(has(trials, "lens=3+2+2 mask=011+01+01 sample_mask=101 vocab=8"));
}

TEST(Reductions, SetKeysAndOptionsBack) {
  const auto trials = smaller_trials(failing(
      "objective=dpo objective.label_smoothing=0.2 lens=3+4 vocab=8 temperature=2", {"tp1cp1"}));
  EXPECT_TRUE(has(trials, "objective=dpo lens=3+4 vocab=8 temperature=2"));
  EXPECT_TRUE(has(trials, "objective=dpo objective.label_smoothing=0.2 lens=3+4 vocab=8"));
  EXPECT_TRUE(has(trials, "lens=3+4 vocab=8 temperature=2"));
}

TEST(Reductions, MakeGridsSmaller) {
  const auto trials = smaller_trials(failing("lens=3 vocab=8", {"tp1cp1", "tp4cp2dp2:ulysses"}));
  const auto has_grids = [&](const std::vector<std::string>& names) {
    return std::any_of(trials.begin(), trials.end(), [&](const FailingTrial& t) {
      std::vector<std::string> own;
      for (const Grid& grid : t.grids) own.push_back(format_grid(grid));
      return own == names;
    });
  };
  EXPECT_TRUE(has_grids({"tp4cp2dp2:ulysses"}));
  EXPECT_TRUE(has_grids({"tp1cp1", "tp2cp2dp2:ulysses"}));
  EXPECT_TRUE(has_grids({"tp1cp1", "tp4cp2:ulysses"}));
  EXPECT_TRUE(has_grids({"tp1cp1", "tp4cp2dp2"}));
}

TEST(Reductions, BreakNoRule) {
  const auto trials = smaller_trials(
      failing("lens=3 vocab=8 hidden=8 hidden_values=one_hot lm_head_bias=true", {"tp2cp1sp"}));
  EXPECT_FALSE(trials.empty());
  for (const FailingTrial& trial : trials) EXPECT_FALSE(first_refusal(trial.spec));
}

TEST(Reductions, EndAtTheSmallestTrial) {
  FailingTrial trial = failing("lens=1 mask=all vocab=1", {"tp1cp1"});
  trial.implementation = "fused";
  EXPECT_TRUE(smaller_trials(trial).empty());
}

}  // namespace
}  // namespace lossgrid
