// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/case/stated_skip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "expect_error.h"
#include "harness/problem/case/suite.h"

namespace lossgrid {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<StatedSkip> read_skips(const std::string& json) {
  return read_stated_skips(nlohmann::ordered_json::parse(json), "s.json: skips");
}

TEST(StatedSkip, IsAboutTheCasesThatHaveItsValues) {
  const auto skips = read_skips(
      R"([{"implementation": "one_sweep", "case": "objective=dpo vocab=64", "reason": "too early"}])");
  const auto reasons = [&](const std::string& text) {
    return stated_reasons(skips, "one_sweep", parse_case(text));
  };
  EXPECT_THAT(reasons("objective=dpo vocab=64 lens=3+4 dtype=bf16"), ElementsAre("too early"));
  EXPECT_THAT(reasons("objective=dpo objective.sft_loss_weight=0.1 vocab=64"),
              ElementsAre("too early"));
  EXPECT_THAT(reasons("objective=dpo vocab=65"), IsEmpty());
  EXPECT_THAT(reasons("vocab=64"), IsEmpty());
  EXPECT_THAT(reasons("objective=clipped_pg vocab=64"), IsEmpty());
}

TEST(StatedSkip, HasDefaultsAndOptionsOfObjectivesAsValues) {
  const auto skips = read_skips(
      R"([{"implementation": "a", "case": "dtype=f32", "reason": "f32"},
          {"implementation": "a", "case": "objective.token_level_loss=false", "reason": "mean"}])");
  EXPECT_THAT(stated_reasons(skips, "a", parse_case("vocab=8")), ElementsAre("f32"));
  EXPECT_THAT(stated_reasons(skips, "a", parse_case("objective.token_level_loss=false dtype=bf16")),
              ElementsAre("mean"));
  EXPECT_THAT(stated_reasons(skips, "a", parse_case("dtype=bf16")), IsEmpty());
}

TEST(StatedSkip, IsAboutImplementationsWithItsOptions) {
  const auto skips =
      read_skips(R"([{"implementation": "linear:gemm=native", "reason": "no such product"}])");
  const auto reasons = [&](const std::string& implementation) {
    return stated_reasons(skips, implementation, CaseSpec());
  };
  EXPECT_THAT(reasons("linear:gemm=native"), ElementsAre("no such product"));
  EXPECT_THAT(reasons("linear:chunk=5:gemm=native"), ElementsAre("no such product"));
  EXPECT_THAT(reasons("linear:gemm=other"), IsEmpty());
  EXPECT_THAT(reasons("linear"), IsEmpty());
  EXPECT_THAT(reasons("linear_ce:gemm=native"), IsEmpty());
}

TEST(StatedSkip, ErrorsNameTheEntryAndTheRule) {
  const auto expect = [](const std::string& json, std::vector<std::string> parts) {
    parts.emplace_back("s.json: skips");
    expect_bad_input([&] { read_skips(json); }, parts);
  };
  expect("3", {"not an array"});
  expect("[3]", {"[0]", "JSON object"});
  expect(R"([{"reason": "r"}])", {"[0]", "no 'implementation'"});
  expect(R"([{"implementation": "a"}])", {"[0]", "no 'reason'"});
  expect(R"([{"implementation": "a", "reason": ""}])", {"[0]", "empty"});
  expect(R"([{"implementation": "", "reason": "r"}])", {"[0]", "empty"});
  expect(R"([{"implementation": "a", "reason": "r", "cases": "vocab=8"}])", {"'cases'", "'case'"});
  expect(R"([{"implementation": "a", "reason": "r", "case": "vocb=8"}])", {"'vocb'", "'vocab'"});
}

TEST(StatedSkip, EverySuiteOfTheRepositoryStatesItsSkips) {
  setenv("LOSSGRID_CASES_DIR", LOSSGRID_SOURCE_DIR "/cases", 1);
  for (const std::string& name : suite_names()) {
    EXPECT_TRUE(read_suite(find_suite(name).at(0)).skips) << name;
  }
  unsetenv("LOSSGRID_CASES_DIR");
}

}  // namespace
}  // namespace lossgrid
