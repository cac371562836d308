// SPDX-License-Identifier: Apache-2.0
// Batches of suite ci, each in one pack and in several microbatches.
#include <map>
#include <set>
#include <string>

#include <gmock/gmock.h>

#include "harness/problem/case/suite.h"

namespace lossgrid {
namespace {

/// With both, a loss that divides by the tokens of one microbatch is seen in any implementation.
TEST(Suites, CiHasTheSameBatchIn1And2And4Microbatches) {
  std::map<std::string, std::set<std::int64_t>> counts;  // by case without them
  std::map<std::string, std::string> objectives;         // by the same
  for (CaseSpec spec : read_suite(LOSSGRID_SOURCE_DIR "/cases/ci.json").cases) {
    const std::int64_t count = spec.microbatches;
    spec.microbatches = 1;
    counts[format_case(spec)].insert(count);
    objectives[format_case(spec)] = spec.objective.kind;
  }
  std::set<std::string> compared;
  for (const auto& [text, of_case] : counts) {
    if (of_case.contains(1) && of_case.contains(2) && of_case.contains(4)) {
      compared.insert(objectives.at(text));
    }
  }
  EXPECT_THAT(compared, testing::IsSupersetOf({"nll", "clipped_pg"}));
}

}  // namespace
}  // namespace lossgrid
