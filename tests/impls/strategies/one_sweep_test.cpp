// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gtest/gtest.h>

#include "trial_fixture.h"

namespace lossgrid {
namespace {

/// Returns the bytes of exponentials that a sweep keeps.
std::int64_t exponentials(const std::string& options, const Grid& grid) {
  const TrialRecord record = run_case("lens=5+8 vocab=96 " + options, "one_sweep", grid);
  EXPECT_EQ(record.status, TrialStatus::passed) << record.reason;
  const auto& by_tag = record.memory.at(1).by_tag_bytes;
  return by_tag.contains("exponentials") ? by_tag.at("exponentials") : 0;
}

/// A shard of the vocabulary has no sum of the whole row, and statistics need the logits again.
TEST(OneSweep, KeepsExponentialsOfWholeRowsOnly) {
  EXPECT_GT(exponentials("statistics=false", {1, 1}), 0);
  EXPECT_EQ(exponentials("statistics=false", {2, 1}), 0);
  EXPECT_EQ(exponentials("statistics=true", {1, 1}), 0);
}

}  // namespace
}  // namespace lossgrid
