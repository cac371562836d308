// SPDX-License-Identifier: Apache-2.0
// The formulas by hand, and against the peaks that upstream published.
#include "harness/loss/upstream_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.h"

namespace lossgrid {
namespace {

double gib(std::int64_t bytes) {
  return static_cast<double>(bytes) / 0x1p30;
}

/// Published with two digits.
constexpr double kLastDigit = 0.005;

TEST(UpstreamMemory, UnchunkedLogprobsAsMeasuredIn4114) {
  EXPECT_EQ(unchunked_logprob_bytes(7), 84);
  // NeMo-RL #4114, review: logits [1, 4096, 128256] in bf16, forward and backward.
  EXPECT_NEAR(gib(unchunked_logprob_bytes(std::int64_t{4096} * 128256)), 5.87, kLastDigit);
}

TEST(UpstreamMemory, ChunkedLogprobsAsMeasuredIn4114) {
  EXPECT_EQ(chunked_logprob_bytes(100, 10, 2), 2 * 100 + 24 * 10);
  const std::int64_t vocab = 128256;
  EXPECT_NEAR(gib(chunked_logprob_bytes(4096 * vocab, 512 * vocab, 2)), 2.45, kLastDigit);
}

TEST(UpstreamMemory, LinearCrossEntropyByHand) {
  LinearCeShape shape{.tokens = 10, .hidden = 3, .width = 5, .chunk_tokens = 4};
  // 24 x 4 x 5 + (2 x 2 + 12) x 10 x 3 + (2 + 8) x 5 x 3
  EXPECT_EQ(linear_ce_backward_bytes(shape), 480 + 480 + 150);
  shape.gathers = false;
  EXPECT_EQ(linear_ce_backward_bytes(shape), 480 + 360 + 150);
  shape.chunk_tokens = 99;  // a chunk is never longer than the rows
  EXPECT_EQ(linear_ce_backward_bytes(shape), 24 * 10 * 5 + 360 + 150);
  shape.hidden_bytes = shape.weight_bytes = 4;
  shape.gathers = true;
  EXPECT_EQ(linear_ce_backward_bytes(shape), 24 * 10 * 5 + 20 * 30 + 12 * 15);
}

TEST(UpstreamMemory, GatheredLogitsOfAReaL1223) {
  EXPECT_EQ(gathered_logits_bytes(80, 1, 2), 160);
  EXPECT_EQ(gathered_logits_bytes(80, 4, 2), 2 * (2 * 80 - 20));
  // 16K tokens, V = 151936 in bf16 on tp2 cp4. The savings in use were about 4 to 5 GB.
  const std::int64_t bytes = gathered_logits_bytes(std::int64_t{16384} * 151936 / 2, 4, 2);
  EXPECT_NEAR(gib(bytes), 4.06, kLastDigit);
  EXPECT_NEAR(static_cast<double>(bytes) * 1e-9, 4.36, kLastDigit);
}

/// As much of an objective as a LossProblem needs.
class NoObjective final : public Objective {
 public:
  std::string_view kind() const override { return "none"; }
  ObjectiveSizes sizes() const override { return {}; }
  void token_terms(const ObjectiveTokens&, const PackedBatch&, SequenceTable<const double>,
                   ObjectiveTotals<double>, const TokenGradients&) const override {}
  ObjectiveResult finish(const PackedBatch&, SequenceTable<const double>,
                         SequenceTable<const double>,
                         ObjectiveTotals<const double>) const override {
    return {};
  }
  ObjectiveTruth truth(const PackedBatch&, std::span<const TokenTruth>) const override {
    return {};
  }
};

/// Rows of one sequence of 2048 tokens, V = 64.
std::vector<std::pair<std::string, std::int64_t>> rows_of(const Grid& grid, DType dtype,
                                                          std::int64_t hidden) {
  PackedBatch batch;
  batch.cu_seqlens = batch.cu_seqlens_padded = {0, 2048};
  const NoObjective objective;
  const ObjectiveSpec spec;
  std::vector<std::pair<std::string, std::int64_t>> rows;
  for (const UpstreamMemory& memory :
       upstream_memory({batch, 64, dtype, grid, objective, spec, {hidden}})) {
    rows.emplace_back(memory.name, memory.bytes);
  }
  return rows;
}

using Rows = std::vector<std::pair<std::string, std::int64_t>>;

TEST(UpstreamMemory, RowsThatApplyToAProblem) {
  // T_c = 1024, V_t = 32: N = 2^15; a chunk holds all rows.
  EXPECT_EQ(rows_of({2, 2}, DType::bf16, 0), (Rows{{"unchunked", 12 << 15},
                                                   {"chunk 1024", (2 + 24) << 15},
                                                   {"CP gather of logits", 2 * (3 << 15)}}));
  // Two chunks of 1024 rows, V_t = 64.
  EXPECT_EQ(rows_of({1, 1}, DType::bf16, 0),
            (Rows{{"unchunked", 12 << 17}, {"chunk 1024", (2 << 17) + (24 << 16)}}));
  EXPECT_EQ(rows_of({1, 2}, DType::f32, 0), (Rows{{"CP gather of logits", 4 * (3 << 16)}}));
  EXPECT_EQ(rows_of({1, 1}, DType::f32, 0), Rows{});
}

TEST(UpstreamMemory, FromHiddenStatesWithoutContextParallelismOnly) {
  // 24 x 256 x 32 + (2 x 2 + 12) x 2048 x 16 + (2 + 8) x 32 x 16
  EXPECT_EQ(rows_of({2, 1}, DType::bf16, 16),
            (Rows{{"linear CE, chunk 256", 196608 + 524288 + 5120}}));
  // On one TP rank nothing is gathered: 24 x 256 x 64 + 12 x 2048 x 16 + 12 x 64 x 16
  EXPECT_EQ(rows_of({1, 1}, DType::f32, 16),
            (Rows{{"linear CE, chunk 256", 393216 + 393216 + 12288}}));
  EXPECT_EQ(rows_of({2, 2}, DType::bf16, 16), Rows{});
}

}  // namespace
}  // namespace lossgrid
