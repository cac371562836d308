// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/verdict/external_cost_merge.h"

#include <gmock/gmock.h>

#include "harness/runner/rank/rank_archive.h"
#include "harness/runner/verdict/cost_merge.h"

namespace lossgrid {
namespace {

constexpr double kTolerance = 0.05;

/// A pack whose forward made `calls` and held `peak_bytes`.
PackFindings external_pack(std::int64_t peak_bytes, std::vector<MeasuredCalls> calls,
                           PhasePrediction predicted = {}) {
  PackFindings pack;
  pack.input_bytes = 10;
  PhaseMeasurement forward;
  forward.peak_bytes = peak_bytes;
  forward.calls = std::move(calls);
  forward.predicted = std::move(predicted);
  pack.measured["forward"] = forward;
  return pack;
}

RankResult external_rank(std::vector<PackFindings> packs) {
  RankResult rank;
  rank.packs = std::move(packs);
  return rank;
}

const std::vector<MeasuredCalls> kTwoOverTp{{"tp", "all_reduce", 2, 8}};

TEST(ExternalCostMerge, KnowsWhoMeasuresItself) {
  EXPECT_TRUE(measured_themselves({external_rank({external_pack(1, {})})}));
  EXPECT_FALSE(measured_themselves({external_rank({PackFindings()})}));
}

TEST(ExternalCostMerge, ShowsTheCallsThatLossesMeasuredThemselves) {
  const std::vector<RankResult> ranks{external_rank({external_pack(7, kTwoOverTp)})};
  TrialRecord record;
  EXPECT_EQ(merge_communication(Grid(), ranks, record), "");
  ASSERT_EQ(record.communication.size(), 1);
  EXPECT_EQ(record.communication[0].measured_payload_bytes, 8);
}

TEST(ExternalCostMerge, HasNoPredictionWithoutAModel) {
  const std::vector<RankResult> ranks{external_rank({external_pack(7, kTwoOverTp)}),
                                      external_rank({external_pack(9, {})})};
  TrialRecord record;
  EXPECT_EQ(merge_external_memory(ranks, kTolerance, record), "");
  EXPECT_EQ(merge_external_communication(0, ranks, record), "");
  ASSERT_EQ(record.communication.size(), 1);
  EXPECT_EQ(record.communication[0].measured_calls, 2);
  EXPECT_FALSE(record.communication[0].predicted_calls.has_value());
  ASSERT_EQ(record.memory.size(), 4);  // two phases of two ranks
  EXPECT_EQ(record.memory[2].measured_peak_bytes, 9);
  EXPECT_EQ(record.memory[2].measured_peak_with_inputs_bytes, 19);
  EXPECT_FALSE(record.memory[2].predicted_peak_bytes.has_value());
}

TEST(ExternalCostMerge, AddsUpMicrobatches) {
  const PhasePrediction one{
      100, std::vector<MeasuredCalls>{{"tp", "all_reduce", 1, 4}, {"tp", "all_reduce", 1, 4}}};
  const std::vector<RankResult> ranks{
      external_rank({external_pack(100, kTwoOverTp, one), external_pack(104, kTwoOverTp, one)})};
  TrialRecord record;
  EXPECT_EQ(merge_external_memory(ranks, kTolerance, record), "");
  EXPECT_EQ(merge_external_communication(0, ranks, record), "");
  EXPECT_EQ(record.communication[0].measured_calls, 4);
  EXPECT_EQ(record.communication[0].predicted_calls, 4);
  EXPECT_EQ(record.communication[0].predicted_payload_bytes, 16);
  EXPECT_EQ(record.memory[0].measured_peak_bytes, 104);
}

TEST(ExternalCostMerge, NamesTheFirstRankThatDiffers) {
  const PhasePrediction none{std::nullopt, std::vector<MeasuredCalls>()};
  const PhasePrediction right{100, kTwoOverTp};
  const std::vector<RankResult> ranks{
      external_rank({external_pack(105, kTwoOverTp, right)}),
      external_rank({external_pack(106, {{"world", "send", 1, 3}}, right)}),
      external_rank({external_pack(1, kTwoOverTp, none)})};
  TrialRecord record;
  EXPECT_EQ(merge_external_memory(ranks, kTolerance, record),
            "memory: rank 1 forward needed 106 bytes, predicted 100");
  EXPECT_EQ(merge_external_communication(0, ranks, record),
            "communication: rank 1 forward tp all_reduce: 0 calls and 0 bytes, predicted 2 and 8");
  ASSERT_EQ(record.communication.size(), 2);
  EXPECT_EQ(record.communication[1].rank, 1);
  EXPECT_EQ(record.communication[1].operation, "send");
  EXPECT_EQ(record.communication[1].predicted_calls, 0);
}

TEST(ExternalCostMerge, PayloadCountsAndMemoryOnEitherSide) {
  TrialRecord record;
  const auto merged = [&](std::int64_t peak_bytes, std::int64_t payload) {
    const std::vector<RankResult> ranks{external_rank({external_pack(
        peak_bytes, {{"tp", "all_reduce", 2, payload}}, PhasePrediction{100, kTwoOverTp})})};
    return merge_external_memory(ranks, kTolerance, record) +
           merge_external_communication(0, ranks, record);
  };
  EXPECT_EQ(merged(95, 8), "");
  EXPECT_EQ(merged(94, 8), "memory: rank 0 forward needed 94 bytes, predicted 100");
  for (const std::int64_t payload : {7, 9}) EXPECT_NE(merged(100, payload), "") << payload;
}

TEST(ExternalCostMerge, PredictionsGoFromProcessToProcess) {
  const PackFindings sent = external_pack(1, kTwoOverTp, {100, kTwoOverTp});
  const auto bytes = to_bytes(sent);
  const auto received = from_bytes<PackFindings>(bytes);
  const PhasePrediction& predicted = received.measured.at("forward").predicted;
  EXPECT_EQ(predicted.peak_bytes, 100);
  ASSERT_TRUE(predicted.calls.has_value());
  EXPECT_EQ(predicted.calls->at(0).payload_bytes, 8);
}

}  // namespace
}  // namespace lossgrid
