// SPDX-License-Identifier: Apache-2.0
// Memory of implementations, worked out on paper. The prediction of a trial and the allocations
// that it is held to have their sizes from one function: a wrong size there is wrong on both sides.
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "harness/device/kernel/rank_threads.h"
#include "impls/kernels/rows.h"
#include "trial_fixture.h"

namespace lossgrid {
namespace {

using Bytes = std::map<std::string, std::int64_t>;

/// Returns what the plan of rank 0 holds, without inputs and what depends on the machine.
Bytes plan_of(const std::string& case_text, const std::string& implementation, const Grid& grid) {
  const TrialRecord record = run_case(case_text, implementation, grid);
  EXPECT_EQ(record.status, TrialStatus::passed) << record.reason;
  Bytes bytes = record.memory.at(0).by_tag_bytes;
  for (const char* other : {"logits", "hidden", "weight", "gemm_workspace", "exponentials"}) {
    bytes.erase(other);
  }
  std::erase_if(bytes, [](const auto& tag) { return tag.second == 0; });
  return bytes;
}

// A row of the table has 10 bytes (target, valid, real, sequence), 4 more for its position in the
// pack. Statistics have 3 floats a row, 5 with entropies, and 24 bytes a shard of the vocabulary.
// The sums of nll are 2 numbers, 20 with statistics.

constexpr const char* kLogits = "lens=5+8 vocab=96 statistics=false";
constexpr Grid kOne{1, 1};
constexpr Grid kFour{2, 2};

/// 13 rows, which are the pack.
TEST(MemoryByHand, LogitsOfOneRank) {
  EXPECT_EQ(plan_of(kLogits, "cp_local", kOne), (Bytes{{"row_table", 13 * 10},
                                                       {"statistics", 13 * 12 + 24},
                                                       {"grad_logprobs", 13 * 4},
                                                       {"objective_sums", 16}}));
  EXPECT_EQ(plan_of(kLogits, "one_sweep", kOne), plan_of(kLogits, "cp_local", kOne));
  // Rows of the rank, and those of the pack with their positions.
  EXPECT_EQ(plan_of(kLogits, "cp_gather_logits", kOne), (Bytes{{"row_table", 13 * (10 + 14)},
                                                               {"statistics", 13 * 12 + 24},
                                                               {"outputs_received", 13 * 4},
                                                               {"grad_logprobs", (13 + 13) * 4},
                                                               {"objective_sums", 16}}));
  EXPECT_EQ(plan_of(kLogits, "fused", kOne), (Bytes{{"row_table", 13 * (10 + 14)},
                                                    {"statistics", 13 * 12 + 24},
                                                    {"outputs_local", 13 * 4},
                                                    {"grad_logprobs", (13 + 13) * 4},
                                                    {"objective_sums", 16}}));
  // Outputs and gradients of the longest sequence, and a float a row for the shift of the shard.
  EXPECT_EQ(plan_of(kLogits, "per_sequence", kOne), (Bytes{{"row_table", 13 * (10 + 14)},
                                                           {"statistics", 13 * 16 + 24},
                                                           {"outputs_local", 8 * 4},
                                                           {"outputs_received", 8 * 4},
                                                           {"grad_logprobs", (13 + 13 + 8) * 4},
                                                           {"objective_sums", 16}}));
}

/// Sequences are padded to 8 + 8; a rank has 8 rows of the 16, and 48 columns of the 96.
TEST(MemoryByHand, LogitsOfFourRanks) {
  EXPECT_EQ(plan_of(kLogits, "cp_local", kFour), (Bytes{{"row_table", 8 * 10},
                                                        {"statistics", 8 * 12 + 2 * 24},
                                                        {"statistics_gathered", 2 * 8 * 12},
                                                        {"grad_logprobs", 8 * 4},
                                                        {"objective_sums", 16}}));
  EXPECT_EQ(plan_of(kLogits, "one_sweep", kFour), plan_of(kLogits, "cp_local", kFour));
  EXPECT_EQ(plan_of(kLogits, "cp_gather_logits", kFour),
            (Bytes{{"row_table", 16 * (10 + 14)},
                   {"logits_gathered", 16 * 48 * 4},
                   {"statistics", 16 * 12 + 2 * 24},
                   {"statistics_gathered", 2 * 16 * 12},
                   {"outputs_received", 16 * 4},
                   {"grad_logprobs", (16 + 8) * 4},
                   {"objective_sums", 16}}));
  EXPECT_EQ(plan_of(kLogits, "fused", kFour), (Bytes{{"row_table", 8 * 10 + 16 * 14},
                                                     {"statistics", 8 * 12 + 2 * 24},
                                                     {"statistics_gathered", 2 * 8 * 12},
                                                     {"outputs_local", 8 * 4},
                                                     {"outputs_received", 16 * 4},
                                                     {"grad_logprobs", (16 + 8) * 4},
                                                     {"objective_sums", 16}}));
  EXPECT_EQ(plan_of(kLogits, "per_sequence", kFour), (Bytes{{"row_table", 8 * 10 + 16 * 14},
                                                            {"statistics", 8 * 16 + 2 * 24},
                                                            {"outputs_local", 4 * 4},
                                                            {"outputs_received", 8 * 4},
                                                            {"grad_logprobs", (16 + 8 + 8) * 4},
                                                            {"objective_sums", 16}}));
}

/// Adds the statistics with entropies of 8 rows on four ranks.
Bytes with_statistics(Bytes bytes) {
  bytes.insert({{"statistics", 8 * 20 + 2 * 24},
                {"statistics_gathered", 2 * 8 * 20},
                {"objective_sums", 160}});
  return bytes;
}

/// As above with 24 hidden columns, chunks of 5 rows, and 4 rows of hidden states on a rank.
/// Factors of products and partial sums of the gradient of hidden states are float32. Each row has
/// a place for its source, 4 bytes.
TEST(MemoryByHand, HiddenStatesOfFourRanks) {
  const std::string f32 = "lens=5+8 vocab=96 hidden=24";
  const std::string bf16 = f32 + " dtype=bf16";
  const std::string linear_ce = "linear_ce:chunk_tokens=5:bf16_gemm=converted";
  const Bytes chunk = with_statistics({{"row_table", 8 * (10 + 4)},
                                       {"hidden_chunk", 5 * 24 * 4},
                                       {"logits_chunk", 5 * 48 * 4},
                                       {"grad_hidden_partial", 8 * 24 * 4},
                                       {"grad_logprobs", 8 * 4}});
  EXPECT_EQ(plan_of(bf16, linear_ce, kFour), chunk);
  Bytes gathered = chunk;
  gathered["hidden_gathered"] = 8 * 24 * 2;
  gathered["grad_hidden_partial"] = (8 + 4) * 24 * 4;
  EXPECT_EQ(plan_of(bf16, linear_ce, {2, 2, 1, true}), gathered);
  // Statistics of one chunk are enough where its gradients come at once.
  Bytes kept = chunk;
  kept["statistics"] = 5 * 20 + 2 * 24;
  kept["statistics_gathered"] = 2 * 5 * 20;
  kept["grad_weight_kept"] = 48 * 24 * 4;
  EXPECT_EQ(plan_of(f32, "linear_ce_onepass:chunk_tokens=5", kFour), kept);
  // All rows are one chunk. The gradient of hidden states has room for its partial sum.
  EXPECT_EQ(plan_of(f32, "linear_materialized", kFour),
            with_statistics({{"row_table", 8 * (10 + 4) + 8 * 10 + 16 * 14},
                             {"hidden_chunk", 8 * 24 * 4},
                             {"logits_chunk", 8 * 48 * 4},
                             {"outputs_local", 8 * 16},
                             {"outputs_received", 16 * 16},
                             {"grad_logprobs", (16 + 8) * 4}}));
}

/// A thread keeps the exponentials of a row, and the shifts of two rows: one for 512 columns, and
/// one for the rest. It starts at a cache line, and one more is between two threads.
TEST(MemoryByHand, ScratchOfOneSweep) {
  const VocabShard shard = vocab_shard(600 * 512, 1, 0);
  EXPECT_EQ(forward_backward_scratch_floats(DType::f32, shard, false),
            rank_threads() * (600 * 512 + 1216 + 16));
  EXPECT_EQ(forward_backward_scratch_floats(DType::bf16, shard, true),
            rank_threads() * (600 * 512 + 1216 + 16));
  EXPECT_EQ(forward_backward_scratch_floats(DType::f32, shard, true), rank_threads() * (1216 + 16));
}

}  // namespace
}  // namespace lossgrid
