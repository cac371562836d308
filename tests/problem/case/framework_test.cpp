// SPDX-License-Identifier: Apache-2.0
// Conventions of frameworks: the presets against a table of exponents written out here, and the
// text by which a case states them.
#include "harness/problem/case/framework.h"

#include <map>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "expect_error.h"

namespace lossgrid {
namespace {

/// Exponents of dp, cp and n_mb.
struct Exponents {
  int dp, cp, n_mb;
};

bool operator==(const ScaleFactor& factor, const Exponents& want) {
  return factor.dp == want.dp && factor.cp == want.cp && factor.n_mb == want.n_mb;
}

struct Row {
  const char* name;
  Exponents loss, schedule, gather, reduction, metrics, net;
  LossCounts counts = LossCounts::global;
};

constexpr Exponents kOne{0, 0, 0};
constexpr Exponents kDp{1, 0, 0};
constexpr Exponents kCp{0, 1, 0};
constexpr Exponents kOneOfCp{0, -1, 0};
constexpr Exponents kMean{-1, -1, 0};
constexpr Exponents kCpOverN{0, 1, -1};
constexpr Exponents kOneOverN{0, 0, -1};

constexpr Row kTable[] = {
    {"nemo_rl_megatron", {0, -2, 1}, kCpOverN, kCp, kOne, kOne, kOne},
    {"nemo_rl_automodel", {1, 1, 0}, kOne, kOne, kMean, kOne, kOne},
    {"nemo_rl_pp_adapter", {1, 1, 0}, kOne, kOne, kMean, kOne, kOne},
    {"nemo_rl_pp_adapter_gather_reduces", {1, 1, 0}, kOne, kCp, kMean, kOne, kCp},
    {"areal", {1, -1, 1}, kCpOverN, kCp, kMean, kOne, kOne},
    {"areal_schedule_without_cp", {1, -1, 1}, kOneOverN, kCp, kMean, kOne, kOneOfCp},
    {"areal_cp_local", {1, 0, 1}, kCpOverN, kOne, kMean, kOne, kOne},
    {"skyrl", {1, 0, 1}, kCpOverN, kOne, kMean, kOne, kOne},
    {"skyrl_extra_cp", {1, 1, 1}, kCpOverN, kOne, kMean, kOne, kCp},
    {"skyrl_metrics_over_cp", {1, 0, 1}, kCpOverN, kOne, kMean, kCp, kOne},
    {"skyrl_metrics_over_cp_schedule_without_cp", {1, 0, 1}, kOneOverN, kOne, kMean, kCp, kOneOfCp},
    {"verl_fsdp", kDp, kOne, kCp, kMean, kOne, kOne},
    {"verl_megatron", {1, 0, 1}, kCpOverN, kOne, kMean, kOne, kOne},
    {"verl_megatron_without_n_mb", kDp, kCpOverN, kOne, kMean, kOne, kOneOverN},
    {"torchtitan", kOne, kOne, kOne, kOne, kOne, kOne},
    {"torchtitan_mean_over_dp", kOne, kOne, kOne, kMean, kOne, kMean},
    {"openrlhf", {1, 0, 1}, kOneOverN, kCp, kMean, kOne, kOne},
    {"openrlhf_without_gas", kDp, kOneOverN, kCp, kMean, kOne, kOneOverN},
    {"trl_dapo", {1, 1, 0}, kOne, kOne, kMean, kOne, kOne},
    {"trl_dapo_accumulated", {1, 1, 0}, kOneOverN, kOne, kMean, kOne, kOneOverN},
    {"megatron_per_token", kOne, kOne, kOne, kOne, kOne, kOne},
    {"megatron_2_tuple", kOne, kCpOverN, kOne, kMean, kOne, {-1, 0, -1}, LossCounts::pack},
    {"megatron_3_tuple", kOne, kOneOverN, kOne, kMean, kOne, {-1, -1, -1}, LossCounts::rank},
    {"trl_bnpo", kOne, kOneOverN, kOne, kMean, kOne, {-1, -1, -1}, LossCounts::rank},
};

Framework framework_of(const std::string& case_text) {
  return stated_framework(parse_case(case_text).framework).value();
}

TEST(Framework, PresetsMultiplyAsTheirStacksDo) {
  ASSERT_EQ(framework_presets().size(), std::size(kTable));
  for (const Row& row : kTable) {
    const Framework framework = framework_of(std::string("framework=") + row.name);
    EXPECT_TRUE(framework.loss == row.loss) << row.name << " " << format_scale(framework.loss);
    EXPECT_TRUE(framework.schedule == row.schedule) << row.name;
    EXPECT_TRUE(framework.gather == row.gather) << row.name;
    EXPECT_TRUE(framework.reduction() == row.reduction) << row.name;
    EXPECT_TRUE(framework.metrics == row.metrics) << row.name;
    EXPECT_EQ(framework.counts, row.counts) << row.name;
    EXPECT_TRUE(framework.net() == row.net) << row.name << " " << format_scale(framework.net());
    // The table itself: the factors of a row multiply to the net factor in its summary.
    EXPECT_EQ(row.loss.dp + row.schedule.dp + row.gather.dp + row.reduction.dp, row.net.dp);
    EXPECT_EQ(row.loss.cp + row.schedule.cp + row.gather.cp + row.reduction.cp, row.net.cp);
    EXPECT_EQ(row.loss.n_mb + row.schedule.n_mb + row.gather.n_mb + row.reduction.n_mb,
              row.net.n_mb);
  }
}

TEST(Framework, WrongPresetsAreRightWithoutContextParallelism) {
  for (const FrameworkPreset& preset : framework_presets()) {
    const ScaleFactor net = preset.framework.net();
    if (net.dp != 0 || net.n_mb != 0) continue;  // wrong without it, too
    EXPECT_TRUE(preset.framework.net().is_one({3, 1, 5})) << preset.name;
    EXPECT_EQ(preset.framework.net().is_one({3, 2, 5}), preset.framework.net() == ScaleFactor{})
        << preset.name;
  }
}

TEST(Framework, ACaseWithoutOneStatesNone) {
  EXPECT_FALSE(stated_framework(parse_case("lens=5").framework));
  EXPECT_FALSE(stated_framework(parse_case("framework=none framework.loss=preset").framework));
  // Without a preset, a part that is not stated is 1.
  EXPECT_EQ(framework_of("framework.loss=1"), Framework{});
}

TEST(Framework, PartsReplaceThoseOfThePresetInAnyOrder) {
  for (const char* text : {"framework=areal framework.schedule=1/n_mb framework.metrics=dp",
                           "framework.metrics=dp framework.schedule=1/n_mb framework=areal"}) {
    const Framework framework = framework_of(text);
    EXPECT_EQ(format_scale(framework.loss), "dp*n_mb/cp");
    EXPECT_EQ(format_scale(framework.schedule), "1/n_mb");
    EXPECT_EQ(format_scale(framework.gather), "cp");
    EXPECT_EQ(framework.dp_reduction, DpReduction::mean);
    EXPECT_EQ(format_scale(framework.metrics), "dp");
  }
  const Framework own = framework_of(
      "framework.loss=cp framework.gather=cp framework.dp_reduction=mean framework.schedule=1/cp");
  EXPECT_EQ(format_scale(own.net()), "1/dp");
  EXPECT_EQ(framework_of("framework=skyrl framework.gather=cp").net(), (ScaleFactor{0, 1, 0}));
  EXPECT_EQ(framework_of("framework=skyrl framework.dp_reduction=sum").net(),
            (ScaleFactor{1, 1, 0}));
}

TEST(Framework, DescribesItsProduct) {
  const ScaleSizes sizes{2, 4, 3};
  EXPECT_EQ(describe_scale(framework_of("framework=nemo_rl_pp_adapter_gather_reduces"), sizes),
            "loss dp*cp x schedule 1 x gather cp x dp mean 1/(dp*cp) = cp = 4");
  EXPECT_EQ(describe_scale(framework_of("framework=nemo_rl_megatron"), sizes),
            "loss n_mb/(cp*cp) x schedule cp/n_mb x gather cp x dp sum 1 = 1");
  EXPECT_EQ(describe_scale(framework_of("framework.schedule=1/n_mb"), sizes),
            "loss 1 x schedule 1/n_mb x gather 1 x dp sum 1 = 1/n_mb = 0.333333");
  EXPECT_EQ(
      describe_scale(framework_of("framework.schedule=1/n_mb framework.counts=rank"), sizes),
      "loss 1 x schedule 1/n_mb x gather 1 x dp sum 1 = 1/n_mb = 0.333333, over the tokens of "
      "the rank");
}

TEST(FrameworkKeys, AreKeptInTheirShortestForm) {
  const CaseSpec spec = parse_case("framework.loss=1/cp*dp*(n_mb) framework=areal seed=3");
  EXPECT_EQ(format_case(spec), "framework=areal framework.loss=dp*n_mb/cp seed=3");
  EXPECT_EQ(spec, parse_case("framework=areal framework.loss=n_mb/cp*dp seed=3"));
  EXPECT_FALSE(spec == parse_case("framework=areal framework.loss=n_mb/cp seed=3"));
}

TEST(FrameworkKeys, AreTextInJsonAndSweep) {
  const auto read = [](const char* text) {
    return cases_from_json(nlohmann::ordered_json::parse(text), "here");
  };
  const std::vector<CaseSpec> cases = read(R"json({"name": "a", "framework": "areal",
                                                  "framework.loss": ["n_mb/dp", "1/(dp*cp)"]})json");
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_EQ(cases[1].framework.loss, "1/(dp*cp)");
  EXPECT_EQ(cases[1].name, "a framework.loss=1/(dp*cp)");
  const std::vector<CaseSpec> swept =
      parse_sweep("framework=areal framework.loss=[n_mb/dp,1/(dp*cp)]");
  ASSERT_EQ(swept.size(), 2u);
  EXPECT_EQ(swept[0], cases[0]);
  EXPECT_EQ(swept[1], cases[1]);
  EXPECT_EQ(parse_sweep("framework.schedule=[1,1/n_mb]")[0].framework.schedule, "1");
  EXPECT_EQ(case_to_json(cases[1])["framework"], "areal");
  EXPECT_EQ(case_to_json(cases[1])["framework.loss"], "1/(dp*cp)");
  EXPECT_EQ(case_to_json(cases[1])["framework.gather"], "preset");
  expect_bad_input([&] { read(R"({"framework.loss": 1})"); },
                   {"here", "framework.loss", "not a string"});
  expect_bad_input([&] { read(R"({"framework.loss": "n_mb / dp"})"); },
                   {"here", "framework.loss = 'n_mb / dp'"});
}

TEST(FrameworkKeys, ErrorsNameTheKeyAndTheRule) {
  const auto expect = [](const char* text, const std::vector<std::string>& parts) {
    expect_bad_input([&] { parse_case(text); }, parts);
  };
  expect("framework=arael", {"unknown framework 'arael'", "'areal'", "lossgrid list frameworks"});
  expect("framework=preset", {"framework"});
  expect("framework.loss=2*cp", {"framework.loss = '2*cp'", "dp, cp, n_mb and 1"});
  expect("framework.schedule=pp", {"framework.schedule = 'pp'"});
  expect("framework.metrics=", {"framework.metrics", "no value"});
  expect("framework.gather=dp", {"framework.gather = 'dp'", "neither 1", "nor cp"});
  expect("framework.dp_reduction=avg", {"framework.dp_reduction = 'avg'", "neither sum nor mean"});
  expect("framework.los=cp", {"'framework.los'", "'framework.loss'"});
}

}  // namespace
}  // namespace lossgrid
