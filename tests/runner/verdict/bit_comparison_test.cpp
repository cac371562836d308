// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/verdict/bit_comparison.h"

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

TrialRecord record_on(int tp, int cp) {
  TrialRecord record;
  record.status = TrialStatus::passed;
  record.tp = tp;
  record.cp = cp;
  record.determinism = {{"run_to_run", "same_bits", true, ""},
                        {"packing", "not_compared", true, ""},
                        {"tp_size", "not_compared", false, ""}};
  record.fingerprints = {{"logprobs", "1"},
                         {"grad_logits", "2"},
                         {"grad_hidden", "3"},
                         {"grad_weight", "4"},
                         {"loss", "5"}};
  return record;
}

/// Returns the record of a second trial after its comparison with one on tp1cp1.
TrialRecord compared(TrialRecord second) {
  BitComparison bits;
  TrialRecord first = record_on(1, 1);
  bits.judge(first);
  EXPECT_EQ(first.status, TrialStatus::passed);
  EXPECT_EQ(first.determinism[1].verdict, "not_compared");
  bits.judge(second);
  return second;
}

TEST(BitComparison, OtherPackingsKeepEveryOutputByToken) {
  EXPECT_EQ(compared(record_on(1, 2)).determinism[1].verdict, "same_bits");
  for (const char* output : {"logprobs", "grad_logits", "grad_hidden"}) {
    TrialRecord other = record_on(1, 2);
    other.fingerprints[output] = "9";
    const TrialRecord judged = compared(other);
    EXPECT_EQ(judged.determinism[1].verdict, "different_bits") << output;
    EXPECT_EQ(judged.determinism[1].detail, std::string("compared with tp1cp1: ") + output);
    EXPECT_EQ(judged.status, TrialStatus::failed) << output;
    other.determinism[1].claimed = false;
    EXPECT_EQ(compared(other).status, TrialStatus::passed) << output;
  }
  // Sums over tokens round differently in every split.
  for (const char* output : {"grad_weight", "loss"}) {
    TrialRecord other = record_on(1, 2);
    other.fingerprints[output] = "9";
    EXPECT_EQ(compared(other).determinism[1].verdict, "same_bits") << output;
  }
}

TEST(BitComparison, LeavesAloneWhatDependsOnThePacks) {
  TrialRecord other = record_on(1, 2);
  other.fingerprints["grad_logits"] = "9";
  other.determinism[1].detail = "the loss depends on the packs";
  const TrialRecord judged = compared(other);
  EXPECT_EQ(judged.determinism[1].verdict, "not_compared");
  EXPECT_EQ(judged.determinism[1].detail, other.determinism[1].detail);
  EXPECT_EQ(judged.status, TrialStatus::passed);
}

TEST(BitComparison, OtherTpSizesAreComparedByLogprobs) {
  const TrialRecord same = compared(record_on(2, 1));
  EXPECT_EQ(same.determinism[1].verdict, "not_compared");
  EXPECT_EQ(same.determinism[2].verdict, "same_bits");
  TrialRecord other = record_on(2, 1);
  other.fingerprints["logprobs"] = "9";
  EXPECT_EQ(compared(other).determinism[2].verdict, "different_bits");
  EXPECT_EQ(compared(other).status, TrialStatus::passed);
  other.determinism[2].claimed = true;
  EXPECT_EQ(compared(other).status, TrialStatus::failed);
}

TEST(BitComparison, TrialsThatDidNotPassAreLeftOut) {
  BitComparison bits;
  TrialRecord failed = record_on(1, 1);
  failed.status = TrialStatus::failed;
  failed.fingerprints["logprobs"] = "9";
  bits.judge(failed);
  EXPECT_EQ(failed.status, TrialStatus::failed);
  for (const int cp : {1, 2}) {
    TrialRecord right = record_on(1, cp);
    bits.judge(right);
    EXPECT_EQ(right.status, TrialStatus::passed) << cp;
  }
}

}  // namespace
}  // namespace lossgrid
