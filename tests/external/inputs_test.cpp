// SPDX-License-Identifier: Apache-2.0
// Suites with cases from logits and from hidden states: every implementation gets its own kind. A
// case of the other kind is refused only if it is requested by name.
#include <gmock/gmock.h>

#include "python.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

const std::string kMixed = R"({"suite": 1, "name": "mixed", "summary": "both kinds",
  "grids": ["tp1cp1"], "implementations": ["fused", "linear_ce"],
  "cases": [{"name": "from logits", "lens": "5+8", "vocab": 24},
            {"name": "from hidden states", "lens": "5+8", "vocab": 24, "hidden": 8}]})";

const std::string kFromLogits = R"(
@lossgrid.implementation
def mine(logits, batch):
    return right(logits, batch)
)";

using ExternalInputs = WithTorch;

TEST_F(ExternalInputs, CasesOfTheOtherKindAreNoTrialsOfASuite) {
  const std::string mine = write_python("mine.py", kFromLogits);
  const std::string suite = scratch_.file("mixed.json");
  write_all(suite, kMixed);
  const std::string report = scratch_.file("report.json");
  const ProcessResult result =
      run_loaded("run", {mine, kExamples + "linear.py"},
                 "--suite " + suite + " --impl mine,linear,fused,linear_ce --report " + report);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  std::vector<std::string> trials;
  for (const ordered_json& trial : records_of(report, "trials")) {
    EXPECT_EQ(trial["status"], "passed") << trial["id"];
    trials.push_back(trial["implementation"].get<std::string>() + ' ' +
                     trial["case"]["name"].get<std::string>());
  }
  EXPECT_THAT(trials,
              UnorderedElementsAre("mine from logits", "fused from logits",
                                   "linear from hidden states", "linear_ce from hidden states"));

  const ProcessResult asked =
      run_loaded("run", {mine}, "--impl mine --case 'lens=5+8 vocab=24 hidden=8'");
  EXPECT_EQ(asked.exit_code, 77);
  EXPECT_THAT(asked.out, HasSubstr("takes logits; the case starts from hidden states (mine)"));
}

}  // namespace
}  // namespace lossgrid
