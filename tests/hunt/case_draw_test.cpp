// SPDX-License-Identifier: Apache-2.0
// Tests that drawn cases are legal, follow from the seed, and reach every key and every option.
#include "harness/hunt/case_draw.h"

#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/hunt/option_draw.h"
#include "harness/hunt/setting.h"
#include "harness/loss/registry.h"
#include "harness/problem/case/case_keys.h"
#include "harness/runner/job/problem_cache.h"

namespace lossgrid {
namespace {

CaseSpec drawn(std::uint64_t seed, std::uint64_t draw) {
  Dice dice(seed, draw);
  return draw_case(dice, DrawLimits());
}

TEST(CaseDraw, FollowsFromTheSeed) {
  EXPECT_EQ(drawn(1, 0), drawn(1, 0));
  EXPECT_NE(drawn(1, 0), drawn(1, 1));
  EXPECT_NE(drawn(1, 0), drawn(2, 0));
}

TEST(CaseDraw, HasATextThatReadsBack) {
  for (int k = 0; k < 200; ++k) {
    const CaseSpec spec = drawn(3, k);
    EXPECT_EQ(parse_case(format_case(spec)), spec);
  }
}

TEST(CaseDraw, IsSeldomRefused) {
  constexpr int kCases = 400;
  std::map<std::string, int> refusals;
  int refused = 0;
  for (int k = 0; k < kCases; ++k) {
    const CaseSpec spec = drawn(4, k);
    try {
      prepare(make_problem(spec));
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::bad_input) << format_case(spec);
      ++refused;
      ++refusals[error.what()];
    }
  }
  EXPECT_LT(refused, kCases / 10) << refusals.begin()->first;
}

TEST(CaseDraw, MakesAFewPacksLong) {
  int is_long = 0;
  for (int k = 0; k < 2000; ++k) {
    const CaseSpec spec = drawn(8, k);
    const std::int64_t first = std::atoll(spec.lens.c_str());
    if (first <= 8192) continue;
    ++is_long;
    EXPECT_LE(spec.vocab, 3) << format_case(spec);
  }
  EXPECT_GT(is_long, 0);
  EXPECT_LT(is_long, 20);
}

TEST(CaseDraw, ReachesEveryKeyAndValueOfTheTable) {
  std::set<std::string> reached;
  for (int k = 0; k < 12'000; ++k) {
    const CaseSpec spec = drawn(5, k);
    for (const CaseKey& key : case_keys()) reached.insert(key.name + '=' + key.get(spec));
  }
  for (const CaseKey& key : case_keys()) {
    for (const std::string& value : key.draws) {
      EXPECT_TRUE(reached.contains(key.name + '=' + value)) << key.name << " = " << value;
    }
  }
}

TEST(CaseDraw, KeepsWithinItsLimits) {
  DrawLimits limits;
  limits.objectives = {"dpo"};
  limits.from_logits = false;
  limits.max_ranks = 3;
  for (int k = 0; k < 100; ++k) {
    Dice dice(6, k);
    const CaseSpec spec = draw_case(dice, limits);
    EXPECT_EQ(spec.objective.kind, "dpo");
    EXPECT_GT(spec.hidden, 0);
    const Grid grid = draw_grid(dice, spec, limits);
    EXPECT_LE(grid.ranks(), 3);
    EXPECT_LE(grid.tp, spec.vocab);
  }
}

TEST(OptionDraw, ReachesEveryOptionOfEveryObjective) {
  for (const ObjectiveEntry* entry : objectives()) {
    std::set<std::string> options;
    for (const OptionDraw::Value& value : option_draw(entry->kind).values()) {
      options.insert(value.first);
    }
    for (const OptionDescription& option : entry->document()) {
      EXPECT_TRUE(options.contains(option.name)) << entry->kind << " " << option.name;
    }
  }
}

TEST(OptionDraw, DrawsOnlySetsThatAreTaken) {
  std::size_t largest = 0;
  for (const ObjectiveEntry* entry : objectives()) {
    for (int k = 0; k < 100; ++k) {
      Dice dice(7, k);
      const ObjectiveOptions options = option_draw(entry->kind).draw(dice, 6);
      EXPECT_NO_THROW(entry->make(options));
      largest = std::max(largest, options.size());
    }
  }
  EXPECT_GE(largest, 6u);
}

TEST(Setting, NamesWhatIsNotTheDefault) {
  const CaseSpec spec = parse_case(
      "objective=dpo objective.loss_type=ipo objective.sft_loss_weight=0.1 lens=3+4 vocab=8 "
      "temperature=2 values=ties dtype=bf16 mask=011+0111");
  std::map<std::string, SettingKind> labels;
  for (const Setting& setting : settings_of(spec, parse_grid("tp2cp2:ulysses"))) {
    labels[setting.label] = setting.kind;
  }
  const std::map<std::string, SettingKind> expected{
      {"objective=dpo", SettingKind::objective},
      {"objective.loss_type=ipo", SettingKind::option},
      {"objective.sft_loss_weight", SettingKind::option},
      {"temperature", SettingKind::key},
      {"mask", SettingKind::key},
      {"values=ties", SettingKind::regime},
      {"dtype=bf16", SettingKind::dtype},
      {"tp", SettingKind::layout},
      {"cp", SettingKind::layout},
      {"cp:ulysses", SettingKind::layout}};
  EXPECT_EQ(labels, expected);
}

TEST(Setting, DecidesWhereTheTruthIsAnotherOneWithoutIt) {
  // Without a clip the bound of the clip decides nothing: the ratio is 1.
  const CaseSpec spec = parse_case(
      "objective=clipped_pg objective.force_on_policy_ratio=true objective.ratio_clip_max=0.5 "
      "lens=6+7 vocab=8 temperature=2 pad_multiple=4");
  std::set<std::string> labels;
  for (const Setting& setting : deciding_settings(spec, settings_of(spec, Grid()))) {
    labels.insert(setting.label);
  }
  EXPECT_TRUE(labels.contains("temperature"));
  EXPECT_TRUE(labels.contains("objective.force_on_policy_ratio"));
  EXPECT_TRUE(labels.contains("pad_multiple"));  // no number of the truth depends on it
  EXPECT_FALSE(labels.contains("objective.ratio_clip_max"));
}

}  // namespace
}  // namespace lossgrid
