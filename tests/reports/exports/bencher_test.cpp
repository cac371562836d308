// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "json_schema.h"

namespace lossgrid {
namespace {

constexpr const char* kExpectedBencher = R"json({
  "lens=64 vocab=512/fused:chunk_tokens=7/tp2cp1/forward_backward/hot": {
    "latency": {
      "value": 2000000,
      "lower_value": 1995000,
      "upper_value": 2006000
    }
  },
  "vocab=96 lens=5+8/fused/tp1cp1": {
    "peak_bytes": {
      "value": 2048
    },
    "error_ratio": {
      "value": 0.5
    }
  }
}
)json";

TEST(Bencher, HoldsTimesOfTimedRowsAndCostsOfPassedTrials) {
  EXPECT_EQ(exported("bencher", bench_run()), kExpectedBencher);
}

TEST(Bencher, TrialsThatDidNotPassAreLeftOut) {
  RunRecord run = small_run();
  run.trials[0] = sample_nan();
  EXPECT_EQ(exported("bencher", run), "{}\n");
}

TEST(Bencher, IsOfTheSchema) {
  expect_schema("bencher", "bencher.schema.json");
}

}  // namespace
}  // namespace lossgrid
