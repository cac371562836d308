// SPDX-License-Identifier: Apache-2.0
// Rows of a rank's logits: their gradient is written past the caches by the size of all of them,
// also where a strategy takes them part by part.
#include <gtest/gtest.h>

#include "harness/problem/batch/packed_batch.h"
#include "harness/runner/job/problem_cache.h"
#include "harness/runner/rank/trial_setup.h"
#include "impls/toolkit/strategy.h"

namespace lossgrid {
namespace {

/// True if the gradient of one row of [8, 16] float32 logits, 512 bytes in all, is streamed.
bool row_is_streamed(std::int64_t stream_bytes) {
  const PreparedProblem prepared =
      prepare(make_problem(parse_case("lens=8 vocab=16 mask=all statistics=false")));
  const Grid grid;
  const PackedBatch batch = pack(*prepared.problem, grid);
  const LossProblem problem =
      make_loss_problem(*prepared.problem, batch, grid, *prepared.objective);
  const auto device = make_cpu_device();
  const Steps steps;
  const RowTable table(*device, steps.local_targets(batch, steps, 1, 0), problem);
  const std::vector<float> logits(8 * 16);
  const LogitsRows rows = logits_rows(problem, steps.shard_vocab(16, 1, 0),
                                      LossInputs{.logits = logits.data()}, table, stream_bytes);
  return rows.slice(3, 1).past_caches;
}

TEST(LogitsRows, PartsAreStreamedByTheSizeOfTheWhole) {
  EXPECT_TRUE(row_is_streamed(512));
  EXPECT_FALSE(row_is_streamed(513));
}

}  // namespace
}  // namespace lossgrid
