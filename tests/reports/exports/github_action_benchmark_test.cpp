// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "json_schema.h"

namespace lossgrid {
namespace {

constexpr const char* kExpectedGithubActionBenchmark = R"json([
  {
    "name": "lens=64 vocab=512/fused:chunk_tokens=7/tp2cp1/forward_backward/hot time",
    "unit": "ms",
    "value": 2.0,
    "range": "± 0.005",
    "extra": "n=3, 20..80 %: 1.995..2.006 ms, 2.00x as fast as per_sequence"
  },
  {
    "name": "vocab=96 lens=5+8/fused/tp1cp1 peak memory",
    "unit": "bytes",
    "value": 2048
  },
  {
    "name": "vocab=96 lens=5+8/fused/tp1cp1 error / bound",
    "unit": "ratio",
    "value": 0.5
  }
]
)json";

TEST(GithubActionBenchmark, HoldsTimesOfTimedRowsAndCostsOfPassedTrials) {
  EXPECT_EQ(exported("github-action-benchmark", bench_run()), kExpectedGithubActionBenchmark);
}

TEST(GithubActionBenchmark, TrialsThatDidNotPassAreLeftOut) {
  RunRecord run = small_run();
  run.trials[0] = sample_nan();
  EXPECT_EQ(exported("github-action-benchmark", run), "[]\n");
}

TEST(GithubActionBenchmark, IsOfTheSchema) {
  expect_schema("github-action-benchmark", "github_action_benchmark.schema.json");
}

}  // namespace
}  // namespace lossgrid
