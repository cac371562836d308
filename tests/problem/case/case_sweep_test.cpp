// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "expect_error.h"
#include "harness/problem/case/case_spec.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> texts(const std::vector<CaseSpec>& cases) {
  std::vector<std::string> out;
  for (const CaseSpec& spec : cases) out.push_back(format_case(spec));
  return out;
}

std::vector<std::string> names(const std::vector<CaseSpec>& cases) {
  std::vector<std::string> out;
  for (const CaseSpec& spec : cases) out.push_back(spec.name);
  return out;
}

std::vector<CaseSpec> from_json(const std::string& text) {
  return cases_from_json(Json::parse(text), "s.json: cases[3]");
}

TEST(Sweep, TheLastKeyRunsFastest) {
  const auto cases = parse_sweep("vocab=[8,9] lens=5+8 dtype=[bf16,f64]");
  EXPECT_EQ(texts(cases), (std::vector<std::string>{
                              "lens=5+8 vocab=8 dtype=bf16", "lens=5+8 vocab=8 dtype=f64",
                              "lens=5+8 vocab=9 dtype=bf16", "lens=5+8 vocab=9 dtype=f64"}));
  EXPECT_EQ(cases[1].name, "vocab=8 dtype=f64");
}

TEST(Sweep, WithoutArraysIsOneCase) {
  const auto cases = parse_sweep("vocab=8");
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_EQ(cases[0].name, "");
}

TEST(Sweep, OptionsSweepToo) {
  const auto cases =
      parse_sweep("objective=dpo objective.beta=[0.1,0.2] objective.t=[\"a,b\",\"c\"]");
  ASSERT_EQ(cases.size(), 4u);
  EXPECT_EQ(cases[1].objective.options.at("beta"), "0.1");
  EXPECT_EQ(cases[1].objective.options.at("t"), "\"c\"");
  EXPECT_EQ(cases[2].objective.options.at("t"), "\"a,b\"");
}

TEST(Sweep, BadArraysAreNamed) {
  expect_bad_input([] { parse_sweep("vocab=[1,2"); }, {"vocab", "']'"});
  expect_bad_input([] { parse_sweep("vocab=[]"); }, {"vocab", "empty array"});
  expect_bad_input([] { parse_sweep("vocab=[1,]"); }, {"vocab", "''"});
  expect_bad_input([] { parse_sweep("vocab=[1,a]"); }, {"vocab", "'a'"});
  expect_bad_input([] { parse_sweep("vocab=[1] vocab=[2]"); }, {"vocab", "twice"});
  std::string thousand = "[1";
  for (int i = 2; i <= 1000; ++i) thousand += ',' + std::to_string(i);
  thousand += ']';
  expect_bad_input([&] { parse_sweep("vocab=" + thousand + " seed=" + thousand); },
                   {"more than 100000 cases"});
}

TEST(CasesFromJson, ArraysSweepAndNamesHoldTheValues) {
  const auto cases =
      from_json(R"({"name": "C0", "lens": "5+8", "dtype": ["f32", "bf16"], "seed": [1, 2]})");
  EXPECT_EQ(names(cases),
            (std::vector<std::string>{"C0 dtype=f32 seed=1", "C0 dtype=f32 seed=2",
                                      "C0 dtype=bf16 seed=1", "C0 dtype=bf16 seed=2"}));
  EXPECT_EQ(cases[3].dtype, DType::bf16);
  EXPECT_EQ(cases[3].seed, 2u);
}

TEST(CasesFromJson, BooleansSweep) {
  const auto cases = from_json(R"({"name": "n", "statistics": [true, false]})");
  EXPECT_EQ(names(cases), (std::vector<std::string>{"n statistics=true", "n statistics=false"}));
  EXPECT_TRUE(cases[0].statistics);
  EXPECT_FALSE(cases[1].statistics);
}

TEST(CasesFromJson, TheObjectiveIsAKindOrAnObjectOrAnArrayOfThese) {
  EXPECT_EQ(from_json(R"({"objective": "dpo"})")[0].objective.kind, "dpo");
  const auto one = from_json(R"({"objective": {"kind": "dpo", "beta": 0.1, "t": "x", "f": null}})");
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].name, "");
  EXPECT_EQ(one[0].objective.options,
            (std::map<std::string, std::string>{{"beta", "0.1"}, {"f", "null"}, {"t", "\"x\""}}));
  const auto swept =
      from_json(R"({"name": "n", "objective": {"kind": "dpo", "beta": [0.1, 0.2]}})");
  EXPECT_EQ(names(swept),
            (std::vector<std::string>{"n objective.beta=0.1", "n objective.beta=0.2"}));
  const auto several =
      from_json(R"({"name": "n", "objective": ["nll", {"kind": "dpo", "beta": 0.1}]})");
  EXPECT_EQ(names(several),
            (std::vector<std::string>{"n objective=nll", "n objective=dpo objective.beta=0.1"}));
  EXPECT_TRUE(several[0].objective.options.empty());
}

TEST(CasesFromJson, MessagesNameTheEntryAndTheKey) {
  const std::string where = "s.json: cases[3]";
  expect_bad_input([] { from_json(R"({"vocb": 3})"); }, {where, "vocb", "'vocab'"});
  expect_bad_input([] { from_json(R"({"vocab": "3"})"); }, {where, "vocab", "not a number"});
  expect_bad_input([] { from_json(R"({"vocab": true})"); }, {where, "vocab", "not a number"});
  expect_bad_input([] { from_json(R"({"vocab": 3.5})"); }, {where, "vocab", "whole number"});
  expect_bad_input([] { from_json(R"({"vocab": null})"); }, {where, "vocab", "null"});
  expect_bad_input([] { from_json(R"({"statistics": "true"})"); },
                   {where, "statistics", "not true or false"});
  expect_bad_input([] { from_json(R"({"statistics": 1})"); },
                   {where, "statistics", "not true or false"});
  expect_bad_input([] { from_json(R"({"drift": true})"); }, {where, "drift", "not a string"});
  expect_bad_input([] { from_json(R"({"lens": 5})"); }, {where, "lens", "not a string"});
  expect_bad_input([] { from_json(R"({"lens": [[5, 8]]})"); }, {where, "lens", "plain value"});
  expect_bad_input([] { from_json(R"({"lens": {}})"); }, {where, "lens", "plain value"});
  expect_bad_input([] { from_json(R"({"vocab": []})"); }, {where, "vocab", "empty array"});
  expect_bad_input([] { from_json(R"({"name": 5})"); }, {where, "name", "not a string"});
  expect_bad_input([] { from_json(R"({"objective": 5})"); }, {where, "objective", "not a string"});
  expect_bad_input([] { from_json(R"({"objective": {"b": 5}})"); }, {where, "objective", "kind"});
  expect_bad_input([] { from_json(R"({"objective": []})"); }, {where, "objective", "empty"});
  expect_bad_input([] { from_json("[]"); }, {where, "JSON object", "array"});
}

}  // namespace
}  // namespace lossgrid
