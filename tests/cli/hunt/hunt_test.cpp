// SPDX-License-Identifier: Apache-2.0
// lossgrid hunt as a user runs it: process, report, messages, exit codes.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "process.h"

namespace lossgrid {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

TEST(HuntCommand, PassesForRightImplementations) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  const ProcessResult result =
      run_lossgrid(scratch, "hunt --cases 20 --seed 5 --impl fused,cp_local --report " + report);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("hunt: seed 5, 20 cases ("));
  EXPECT_THAT(result.out, HasSubstr("pairs that decided"));
  const json hunt = json::parse(read_all(report))["hunts"][0];
  EXPECT_EQ(hunt["seed"], 5);
  EXPECT_EQ(hunt["cases"], 20);
  EXPECT_EQ(hunt["drawn"].size(), 20u);
  EXPECT_EQ(hunt["end"], "cases");
  EXPECT_EQ(run_lossgrid(scratch, "validate " + report).exit_code, 0);
}

TEST(HuntCommand, PrintsTheSmallestCaseOfAFailureAndALineThatRunsIt) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  const ProcessResult result = run_lossgrid(
      scratch,
      "hunt --cases 300 --until-failure --seed 6 --quiet --impl mutant/target_not_rolled "
      "--objective nll --report " +
          report);
  EXPECT_EQ(result.exit_code, 10) << result.out << result.err;
  const json found = json::parse(read_all(report))["hunts"][0]["found"][0];
  EXPECT_EQ(found["check"], "loss");
  const std::string line = found["reproduce"];
  EXPECT_THAT(result.out, HasSubstr("smallest:  " + line));
  ASSERT_THAT(line, MatchesRegex("lossgrid run .*"));
  const ProcessResult again = run_lossgrid(scratch, line.substr(std::string("lossgrid ").size()));
  EXPECT_EQ(again.exit_code, 10) << line;
  EXPECT_EQ(run_lossgrid(scratch, "validate " + report).exit_code, 0);
}

TEST(HuntCommand, RefusesWhatItCannotDoInOneLine) {
  const ScratchFolder scratch;
  for (const auto& [arguments, code, text] :
       std::initializer_list<std::tuple<const char*, int, const char*>>{
           {"hunt --seconds 0", 64, "--seconds"},
           {"hunt --seed x", 64, "--seed"},
           {"hunt --cases 0", 64, "--cases"},
           {"hunt --cases 3 --impl fusedd", 65, "fused"},
           {"hunt --cases 3 --objective grpoo", 65, "grpoo"},
           {"hunt --cases 3 --impl linear_ce --backend nope", 65, "nope"}}) {
    const ProcessResult result = run_lossgrid(scratch, arguments);
    EXPECT_EQ(result.exit_code, code) << arguments << result.err;
    EXPECT_THAT(result.err, HasSubstr(text)) << arguments;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

TEST(HuntCommand, EndsAfterItsSeconds) {
  const ScratchFolder scratch;
  const ProcessResult result =
      run_lossgrid(scratch, "hunt --seconds 0.5 --impl fused --quiet --objective nll");
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("hunt: seed "));
  EXPECT_THAT(result.out, Not(HasSubstr("pairs that decided")));
}

}  // namespace
}  // namespace lossgrid
