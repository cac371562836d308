// SPDX-License-Identifier: Apache-2.0
// Implementations that start from hidden states: right on every grid with and without sequence
// parallelism, with a logits-sized part that is one chunk's whatever the length of the batch.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trial_fixture.h"

namespace lossgrid {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const char* const kLinearCases[] = {
    "lens=5+8+1+3 vocab=24 hidden=6 mask=all bin_multiple=32 weight_layout=hidden_vocab",
    "lens=16+0+1+33 vocab=101 hidden=12 sample_mask=1011 cu=padded temperature=0.6",
    "lens=12+20 vocab=64 hidden=16 dtype=bf16 values=peaked tied_embedding=true",
    "lens=4+4 vocab=16 hidden=4 mask=0000+0000",
    "lens=5+8+1+3 vocab=23 hidden=6 lm_head_bias=true weight_layout=hidden_vocab microbatches=2",
    "lens=12+20 vocab=65 hidden=16 dtype=bf16 lm_head_bias=true temperature=0.7 logit_scale=1.3",
    "lens=12+20 vocab=37 hidden=1 lm_head_bias=true values=offset poison=inf logit_softcap=9e3",
    "lens=12+20 vocab=37 hidden=8 dtype=bf16 lm_head_bias=true values=offset tied_embedding=true",
    "lens=0+0 vocab=16 hidden=4",
    "lens=5+8+1+3+0+9 vocab=10 hidden=7 microbatches=2 targets=shard_edges poison=inf",
    ("objective=clipped_pg objective.token_level_loss=false "
     "objective.sequence_level_importance_ratios=true lens=9+14+5+2 vocab=24 hidden=5"),
    "objective=dpo objective.sft_loss_weight=0.1 lens=9+14+5+2 vocab=24 hidden=5 cu=padded",
};

class LinearGrids : public ::testing::TestWithParam<std::string> {};

TEST_P(LinearGrids, AgreeWithTheTruth) {
  for (const char* text : kLinearCases) {
    const PreparedProblem prepared = prepare(make_problem(parse_case(text)));
    for (Grid grid : all_grids()) {
      for (const bool sp : {false, true}) {
        if (sp && grid.tp == 1) continue;
        grid.sp = sp;
        if (grid.tp > prepared.problem->spec.vocab) continue;
        const TrialRecord record =
            run_trial(make_setup(prepared, GetParam(), grid), std::chrono::seconds(60)).record;
        EXPECT_EQ(record.status, TrialStatus::passed) << record.reason << "\n" << record.reproduce;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, LinearGrids,
                         ::testing::Values("reference", "linear_ce", "linear_ce:chunk_tokens=1",
                                           "linear_ce:chunk_tokens=5",
                                           "linear_ce:chunk_tokens=1000",
                                           "linear_ce_onepass:chunk_tokens=5",
                                           "linear_materialized"));

/// Bytes of a tag at the peaks of rank 0, over all phases.
std::int64_t bytes_of(const TrialRecord& record, const std::string& tag) {
  std::int64_t bytes = 0;
  for (const PhaseMemoryRecord& phase : record.memory) {
    const auto entry = phase.by_tag_bytes.find(tag);
    if (entry != phase.by_tag_bytes.end()) bytes = std::max(bytes, entry->second);
  }
  return bytes;
}

TEST(LinearMemory, LogitsAreThoseOfOneChunkWhateverTheLength) {
  const std::string case_text = " mask=all vocab=96 hidden=8";
  for (const char* implementation :
       {"linear_ce:chunk_tokens=16", "linear_ce_onepass:chunk_tokens=16"}) {
    const TrialRecord once = run_case("lens=64" + case_text, implementation, {2, 1});
    const TrialRecord eightfold = run_case("lens=512" + case_text, implementation, {2, 1});
    ASSERT_EQ(once.status, TrialStatus::passed) << once.reason;
    ASSERT_EQ(eightfold.status, TrialStatus::passed) << eightfold.reason;
    EXPECT_EQ(bytes_of(once, "logits_chunk"), 16 * 48 * 4);
    EXPECT_EQ(bytes_of(eightfold, "logits_chunk"), 16 * 48 * 4);
  }
  const TrialRecord materialized = run_case("lens=512" + case_text, "linear_materialized", {2, 1});
  EXPECT_EQ(bytes_of(materialized, "logits_chunk"), 512 * 48 * 4);
}

TEST(LinearMemory, RetainedChunksAreRejectedForTheirMemoryAlone) {
  const TrialRecord record =
      run_case("lens=512 mask=all vocab=96 hidden=8", "mutant/linear_retained_chunks", {2, 1});
  EXPECT_EQ(record.status, TrialStatus::failed);
  EXPECT_EQ(record.cost_mismatches, std::vector<std::string>{"memory"});
  EXPECT_EQ(bytes_of(record, "logits_kept"), 512 * 48 * 4);
  for (const CheckRecord& check : record.checks) EXPECT_TRUE(check.passed) << check.name;
}

TEST(LinearFlops, AProductTwiceIsRejectedForItsFlopsAlone) {
  const std::string text = "lens=9+7 vocab=10 hidden=8";
  const TrialRecord record = run_case(text, "mutant/product_twice", {4, 1});
  EXPECT_EQ(record.status, TrialStatus::failed);
  EXPECT_EQ(record.cost_mismatches, std::vector<std::string>{"flops"});
  // Rows, columns of the first shard, hidden size; three products predicted and a fourth.
  EXPECT_THAT(record.reason, HasSubstr("flops: rank 0 backward: 3072 FLOPs of matrix products, "
                                       "predicted 2304"));
  EXPECT_EQ(record.times.at(2).predicted_flops, 3 * 2 * 16 * 3 * 8);
  for (const CheckRecord& check : record.checks) EXPECT_TRUE(check.passed) << check.name;
}

/// The last shard of a vocabulary has fewer columns, or none; every chunk, pack and dummy counts.
TEST(LinearFlops, AreThosePredictedOnEveryRank) {
  for (const Grid& grid : {Grid{4, 1}, Grid{2, 2}, Grid{2, 1, 3}, Grid{2, 2, 1, true}}) {
    for (const char* layout : {"", " weight_layout=hidden_vocab", " dtype=bf16",
                               " lm_head_bias=true", " lm_head_bias=true dtype=bf16"}) {
      for (const char* name : {"linear_ce:chunk_tokens=3", "linear_ce_onepass:chunk_tokens=3",
                               "linear_materialized", "reference"}) {
        const TrialRecord record =
            run_case(std::string("lens=5+8 vocab=5 hidden=8 microbatches=2") + layout, name, grid);
        EXPECT_EQ(record.status, TrialStatus::passed) << name << layout << ": " << record.reason;
      }
    }
  }
}

Cost cost_of(const std::string& case_text, const std::string& implementation, const Grid& grid) {
  const PreparedProblem prepared = prepare(make_problem(parse_case(case_text)));
  const PackedBatch batch = pack(*prepared.problem, grid);
  const CaseSpec& spec = prepared.problem->spec;
  const LossProblem problem{batch,
                            spec.vocab,
                            spec.dtype,
                            grid,
                            *prepared.objective,
                            spec.objective,
                            {spec.hidden, spec.weight_layout},
                            Backend::cpu,
                            prepared.problem->transform()};
  return make_implementation(implementation)->cost(problem);
}

TEST(LinearCost, OnePassSavesAProductWhereTheObjectiveIsLinear) {
  const std::string shape = " lens=32+32 mask=all vocab=48 hidden=8";
  const std::int64_t product = 2 * 64 * 48 * 8;
  const auto flops = [&](const std::string& objective, const std::string& implementation) {
    const Cost cost = cost_of("objective=" + objective + shape, implementation, {1, 1});
    return cost.forward.flops + cost.backward.flops;
  };
  EXPECT_EQ(flops("nll", "linear_ce"), 4 * product);
  EXPECT_EQ(flops("nll", "linear_ce_onepass"), 3 * product);
  EXPECT_EQ(flops("nll", "linear_materialized"), 3 * product);
  EXPECT_EQ(flops("dpo", "linear_ce"), 4 * product);
  EXPECT_EQ(flops("dpo", "linear_ce_onepass"), 4 * product);
}

TEST(LinearCost, StatisticsCrossTpOnceWhateverTheNumberOfChunks) {
  const std::string text = "lens=64 mask=all vocab=48 hidden=8 statistics=false";
  for (const char* chunk : {"1", "7", "64"}) {
    const Cost cost = cost_of(text, std::string("linear_ce:chunk_tokens=") + chunk, {2, 1});
    EXPECT_EQ(cost.forward.tp[Collective::all_gather].calls, 1);
    EXPECT_EQ(cost.forward.tp[Collective::all_gather].payload_bytes, 3 * 4 * 64);
    EXPECT_EQ(cost.backward.tp[Collective::all_reduce].calls, 1);
    EXPECT_EQ(cost.backward.tp[Collective::all_reduce].payload_bytes, 4 * 64 * 8);
  }
  const Cost sp = cost_of(text, "linear_ce:chunk_tokens=7", {2, 1, 1, true});
  EXPECT_EQ(sp.forward.tp[Collective::all_gather].calls, 2);  // hidden states, then statistics
  EXPECT_EQ(sp.forward.tp[Collective::all_gather].payload_bytes, 4 * 32 * 8 + 3 * 4 * 64);
  EXPECT_EQ(sp.backward.tp[Collective::reduce_scatter].payload_bytes, 4 * 64 * 8);
}

TEST(LinearOptions, BadOnesAreRefusedWithTheirName) {
  const auto message = [](const std::string& text) {
    try {
      make_implementation(text);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(message("linear_ce:chunk_tokens=0"), HasSubstr("chunk_tokens"));
  EXPECT_EQ(message("linear_ce:chunk_tokens=2147483648"), "accepted");
  EXPECT_THAT(message("linear_ce:chunk_tokens=2147483649"), HasSubstr("chunk_tokens"));
  EXPECT_THAT(message("linear_ce:bf16_gemm=fast"), HasSubstr("neither native nor converted"));
  EXPECT_THAT(message("linear_materialized:chunk_tokens=4"), HasSubstr("chunk_tokens"));
  EXPECT_THAT(message("linear_ce:forward=chunks"), HasSubstr("neither logits nor tiles"));
  EXPECT_EQ(message("linear_ce:forward=logits"), "accepted");
  EXPECT_THAT(message("linear_ce_onepass:forward=tiles"), HasSubstr("forward"));
}

/// Losses that a product by tiles does not make are not made by other means.
TEST(LinearTiles, AreSkippedWithTheReason) {
  const std::string rounded = "lens=5+3 vocab=16 hidden=8 dtype=bf16";
  const std::pair<std::string, std::string> cases[] = {
      {rounded + " statistics=false", "about GPUs"},
      {"lens=5+3 vocab=16 hidden=8 statistics=false", "cases in bf16"},
      {"lens=5+3 vocab=16 hidden=12 dtype=bf16 statistics=false", "divisible by 8"},
      {rounded + " statistics=false weight_layout=hidden_vocab", "weights [V, H]"},
      {rounded + " statistics=false lm_head_bias=true", "no bias"},
      {rounded + " statistics=false top_k=4", "no sampling mask"},
      {rounded + " statistics=false logit_softcap=3", "no transform of rows"},
      {rounded, "no entropy"},
      {rounded + " statistics=false objective.label_smoothing=0.1", "no mean_logprob"},
  };
  for (const auto& [text, reason] : cases) {
    const TrialRecord record = run_case(text, "linear_ce:forward=tiles", {1, 1});
    EXPECT_EQ(record.status, TrialStatus::skipped) << text;
    EXPECT_THAT(record.reason, HasSubstr(reason)) << text;
  }
}

TEST(InputKinds, AreSkippedWithTheReason) {
  const TrialRecord logits = run_case("lens=5+3 vocab=16 hidden=4", "fused", {1, 1});
  EXPECT_EQ(logits.status, TrialStatus::skipped);
  EXPECT_THAT(logits.reason, HasSubstr("takes logits"));
  const TrialRecord hidden = run_case("lens=5+3 vocab=16", "linear_ce", {1, 1});
  EXPECT_EQ(hidden.status, TrialStatus::skipped);
  EXPECT_THAT(hidden.reason, HasSubstr("takes hidden states"));
}

TEST(Bf16Products, BothWaysAgreeWithTheTruth) {
  const std::string text = "lens=9+14 vocab=64 hidden=32 dtype=bf16";
  for (const std::string way : {"native", "converted"}) {
    const TrialRecord record = run_case(text, "linear_ce:chunk_tokens=8:bf16_gemm=" + way, {2, 1});
    if (record.status == TrialStatus::skipped) {
      EXPECT_THAT(record.reason, HasSubstr("no native product"));
    } else {
      EXPECT_EQ(record.status, TrialStatus::passed) << record.reason;
      // The factor that is multiplied: 8 rows of 32 columns in bf16, or in float32.
      EXPECT_THAT(record.details.at("bf16_gemm"), StartsWith(way + " (asked for): native "));
      EXPECT_EQ(record.memory.at(1).phase, "forward");
      EXPECT_EQ(record.memory.at(1).by_tag_bytes.at("hidden_chunk"),
                8 * 32 * (way == "native" ? 2 : 4));
    }
  }
}

}  // namespace
}  // namespace lossgrid
