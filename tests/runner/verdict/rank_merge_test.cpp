// SPDX-License-Identifier: Apache-2.0
// The verdict on the ranks of a trial together: one wrong number on one rank or in one microbatch
// fails the check and the invariant that it belongs to, and no bound is wider than it declares.
#include "harness/runner/verdict/rank_merge.h"

#include <atomic>
#include <bit>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/device/memory/buffer.h"
#include "harness/runner/job/problem_cache.h"
#include "harness/runner/trial/trial.h"
#include "harness/verify/checks/expected.h"
#include "spoiled.h"

namespace lossgrid {
namespace {

using ::testing::HasSubstr;

/// Error of the next trial, and the call of forward (or of backward) that it strikes.
std::atomic<double> wrong_by{0};
std::atomic<int> calls_so_far{0};
std::atomic<int> wrong_call{0};

bool is_wrong_call() {
  return calls_so_far++ == wrong_call;
}

/// Returns what fails if one rank is spoiled.
std::string failures_on(int rank, Spoil spoil, const std::string& text, const Grid& grid,
                        const char* base = "cp_local") {
  calls_so_far = 0;
  TrialSetup setup = make_trial(prepare(make_problem(parse_case(text))), base, grid);
  setup.implementation = std::make_shared<Spoiled>(base, spoil, rank);
  return failures_of(run_trial(setup, std::chrono::seconds(60)).record);
}

constexpr const char* kBatch = "lens=8+16 vocab=24 mask=all";
constexpr const char* kHiddenBatch = "lens=8+16 vocab=24 hidden=6 mask=all";

TEST(CheckRecord, HoldsTheWorstElement) {
  Check check("x");
  check.add(1, 2, 0.25, {3, 4, 5, 6});
  check.add(1, 1, 0.5, {});
  const CheckRecord record = to_record(check);
  EXPECT_EQ(record.name, "x");
  EXPECT_FALSE(record.passed);
  EXPECT_EQ(record.ratio, 4);
  EXPECT_EQ(record.error_abs, 1);
  EXPECT_EQ(record.bound_abs, 0.25);
  EXPECT_EQ(record.compared, 2);
  EXPECT_EQ(record.beyond_bound, 1);
  ASSERT_TRUE(record.worst);
  EXPECT_EQ(record.worst->rank, 3);
  EXPECT_EQ(record.worst->sequence, 4);
  EXPECT_EQ(record.worst->token, 5);
  EXPECT_EQ(record.worst->vocab_id, 6);
  EXPECT_EQ(record.worst->got, 1);
  EXPECT_EQ(record.worst->want, 2);
}

TEST(MergedChecks, EveryRankIsCompared) {
  for (const int rank : {0, 1, 2, 3}) {
    EXPECT_THAT(failures_on(rank,
                            [](const LossInputs&, LossOutputs* outputs, LossGradients*) {
                              if (outputs) outputs->tokens.logprobs[0] -= 1;
                            },
                            kBatch, {2, 2}),
                HasSubstr("logprobs "));
    const std::string loss =
        failures_on(rank,
                    [](const LossInputs&, LossOutputs* outputs, LossGradients*) {
                      if (outputs) outputs->result.loss *= 1.001;
                    },
                    kBatch, {2, 2});
    EXPECT_EQ(loss, "loss same_bits_on_all_ranks ") << rank;
    const std::string gradient =
        failures_on(rank,
                    [](const LossInputs&, LossOutputs*, LossGradients* gradients) {
                      if (!gradients) return;
                      for (int k = 0; k < 12; ++k)
                        static_cast<float*>(gradients->logits)[k] *= 1.01f;
                      static_cast<float*>(gradients->logits)[0] += 1;
                    },
                    kBatch, {2, 2});
    EXPECT_EQ(gradient, "grad_logits grad_logits_bias gradient_rows_sum_to_zero ") << rank;
  }
}

TEST(MergedChecks, EveryRankIsComparedFromHiddenStates) {
  for (const int rank : {0, 1, 2, 3}) {
    EXPECT_THAT(failures_on(
                    rank,
                    [](const LossInputs&, LossOutputs*, LossGradients* gradients) {
                      if (gradients) static_cast<float*>(gradients->hidden)[1] += 1;
                    },
                    kHiddenBatch, {2, 2}, "linear_ce"),
                HasSubstr("grad_hidden grad_hidden_l2 "));
    EXPECT_THAT(failures_on(
                    rank,
                    [](const LossInputs&, LossOutputs*, LossGradients* gradients) {
                      if (gradients) gradients->weight[1] += 1;
                    },
                    kHiddenBatch, {2, 2}, "linear_ce"),
                HasSubstr("grad_weight grad_weight_l2 "));
  }
}

TEST(MergedChecks, TheRelativeErrorOfADoubledGradientIs1) {
  TrialSetup setup =
      make_trial(prepare(make_problem(parse_case(kHiddenBatch))), "linear_ce", {2, 2});
  setup.implementation = std::make_shared<Spoiled>(
      "linear_ce", [](const LossInputs&, LossOutputs*, LossGradients* gradients) {
        if (!gradients) return;
        for (int k = 0; k < 12 * 6; ++k) static_cast<float*>(gradients->hidden)[k] *= 2;
        for (int k = 0; k < 12 * 6; ++k) gradients->weight[k] *= 2;
      });
  const TrialRecord record = run_trial(setup, std::chrono::seconds(60)).record;
  EXPECT_NEAR(record.relative_l2.at("grad_hidden"), 1, 1e-4);
  EXPECT_NEAR(record.relative_l2.at("grad_weight"), 1, 1e-4);
}

TEST(MergedChecks, EveryMicrobatchIsCompared) {
  // Three forward passes and two backward passes of a microbatch; the first ones are judged.
  for (const int microbatch : {0, 1}) {
    wrong_call = 4 * microbatch;
    EXPECT_THAT(failures_on(0,
                            [](const LossInputs&, LossOutputs* outputs, LossGradients*) {
                              if (outputs && is_wrong_call())
                                outputs->tokens.terms[RowTerm::entropy][0] += 0.25f;
                            },
                            "lens=8+16 vocab=24 mask=all microbatches=2", {1, 1}),
                HasSubstr("entropy "));
    wrong_call = 3 * microbatch;
    EXPECT_THAT(failures_on(0,
                            [](const LossInputs&, LossOutputs*, LossGradients* gradients) {
                              if (gradients && is_wrong_call())
                                static_cast<float*>(gradients->logits)[0] += 1;
                            },
                            "lens=8+16 vocab=24 mask=all microbatches=2", {1, 1}),
                HasSubstr("gradient_rows_sum_to_zero"));
  }
}

TEST(MergedChecks, ValuesOfABundleAreCompared) {
  TrialSetup setup = make_trial(prepare(make_problem(parse_case(kBatch))), "cp_local", {2, 2});
  setup.keep_outputs = true;
  BundleResults values = expected_results(*setup.problem, *setup.truth);
  setup.expected = std::make_shared<const BundleResults>(values);
  EXPECT_EQ(failures_of(run_trial(setup, std::chrono::seconds(60)).record), "");
  *values.loss += 1;
  values.grad_logits[24 * 22 + 3] += 1;  // of the last row that is trained on
  setup.expected = std::make_shared<const BundleResults>(values);
  const TrialRecord record = run_trial(setup, std::chrono::seconds(60)).record;
  EXPECT_EQ(record.status, TrialStatus::failed);
  EXPECT_EQ(failures_of(record), "expected.loss expected.grad_logits ");
}

TEST(MergedInvariants, FailuresOfEveryRankCount) {
  for (const int rank : {0, 1, 2, 3}) {
    // CP rank 0 holds the first and the last quarter of each sequence, CP rank 1 the others; row 0
    // of each rank is masked.
    EXPECT_EQ(failures_on(rank,
                          [](const LossInputs&, LossOutputs*, LossGradients* gradients) {
                            if (gradients) static_cast<float*>(gradients->logits)[0] = 1e-30f;
                          },
                          "lens=8 vocab=24 mask=00101111", {2, 2}),
              "masked_rows_zero ")
        << rank;
  }
}

TrialRecord record_of(const std::string& text, const char* implementation) {
  return run_trial(make_trial(prepare(make_problem(parse_case(text))), implementation, {1, 1}),
                   std::chrono::seconds(60))
      .record;
}

TEST(MergedDeterminism, HasTheClaimsOfTheImplementationAndBitsOfEveryOutput) {
  for (const bool hidden : {false, true}) {
    const char* implementation = hidden ? "linear_ce" : "cp_local";
    const std::string text = hidden ? kHiddenBatch : kBatch;
    const TrialRecord one = record_of(text, implementation);
    const TrialRecord other = record_of(text + " seed=7", implementation);
    ASSERT_EQ(one.determinism.size(), 3u);
    const ImplementationTraits traits = make_implementation(implementation)->describe();
    EXPECT_TRUE(traits.claims_run_to_run);
    EXPECT_EQ(one.determinism[0].claimed, traits.claims_run_to_run);
    EXPECT_EQ(one.determinism[1].claimed, traits.claims_packing) << implementation;
    EXPECT_EQ(one.fingerprints.size(), hidden ? 4u : 3u);
    for (const auto& [output, bits] : one.fingerprints) {
      EXPECT_NE(bits, other.fingerprints.at(output)) << output;
    }
  }
  EXPECT_TRUE(make_implementation("cp_local")->describe().claims_packing);
}

/// Ratios of whole sequences come from sums, whose order the packing changes; those of tokens do
/// not.
TEST(MergedDeterminism, SumsOverSequencesClaimNoPackingWhereRanksAddThem) {
  const std::string grpo = std::string(kBatch) + " objective=clipped_pg";
  const std::string gspo = grpo +
                           " objective.sequence_level_importance_ratios=true"
                           " objective.token_level_loss=false";
  const auto claims = [](const std::string& text, const char* implementation) {
    const TrialRecord record = record_of(text, implementation);
    EXPECT_EQ(record.status, TrialStatus::passed) << record.reason;
    return record.determinism.at(1).claimed;
  };
  EXPECT_TRUE(claims(grpo, "cp_local"));
  EXPECT_FALSE(claims(gspo, "cp_local"));
  EXPECT_TRUE(claims(gspo, "fused"));  // adds up over the whole pack
}

TEST(MergedInvariants, PaddingColumnsAreZero) {
  // 25 ids on two TP ranks: column 12 of the second one is padding.
  EXPECT_EQ(failures_on(1,
                        [](const LossInputs&, LossOutputs*, LossGradients* gradients) {
                          if (gradients) static_cast<float*>(gradients->logits)[12] = 1e-30f;
                        },
                        "lens=8 vocab=25 mask=all", {2, 1}),
            "padded_vocab_zero ");
}

TEST(MergedInvariants, PoisonIsNotAddedToAWeight) {
  EXPECT_THAT(failures_on(
                  1,
                  [](const LossInputs&, LossOutputs*, LossGradients* gradients) {
                    if (gradients) {
                      gradients->weight[1] =
                          std::bit_cast<float>(std::uint32_t{kPoisonPattern} * 0x10001u);
                    }
                  },
                  kHiddenBatch, {2, 1}, "linear_ce"),
              HasSubstr("every_element_written"));
}

TEST(MergedInvariants, RangesHoldForEveryRow) {
  // Row 6 is the last one that predicts a token; row 2 is not trained on.
  EXPECT_THAT(failures_on(0,
                          [](const LossInputs&, LossOutputs* outputs, LossGradients*) {
                            if (outputs) outputs->tokens.logprobs[6] = 0.5f;
                          },
                          "lens=8 vocab=24 mask=all", {1, 1}),
              HasSubstr("logprobs_nonpositive"));
  EXPECT_EQ(failures_on(0,
                        [](const LossInputs&, LossOutputs* outputs, LossGradients*) {
                          if (outputs) outputs->tokens.terms[RowTerm::entropy][2] = -0.5f;
                        },
                        "lens=8 vocab=24 mask=11101111 poison=none", {1, 1}),
            "entropy entropy_in_range ");
}

TEST(MergedInvariants, RowsAddUpToZeroWithinTheirBoundAndNoMore) {
  // All logits are 0, V = 8, g = -1. A column's bound is
  //   u (p (4 (8 + ln 8) + d) + (4 + 1.01) |p - [target]|)
  // and that of the row their sum, with d = 22 serial additions and one for each further TP rank.
  for (const int tp : {1, 2}) {
    const double bound = 0x1p-24 * (40.31777 + 22 + (tp - 1) + 5.01 * 2 * 7 / 8);
    for (const auto& [share, holds] : {std::pair(0.9, true), std::pair(1.5, false)}) {
      wrong_by = share * bound;
      const std::string failures =
          failures_on(tp - 1,
                      [](const LossInputs&, LossOutputs*, LossGradients* gradients) {
                        if (gradients)
                          *static_cast<float*>(gradients->logits) += static_cast<float>(wrong_by);
                      },
                      "lens=2 mask=all vocab=8 scale=0", {tp, 1});
      EXPECT_EQ(failures.find("gradient_rows_sum_to_zero") == std::string::npos, holds)
          << tp << " " << share << ": " << failures;
    }
  }
}

TEST(MergedInvariants, LabelsThatAreOwnedTwiceOrByNobody) {
  for (const double wrong : {1.0, -1.0}) {
    wrong_by = wrong;
    for (const int rank : {0, 1}) {
      for (const int call : {0, 4}) {  // of the first and the second microbatch
        wrong_call = call;
        EXPECT_EQ(failures_on(rank,
                              [](const LossInputs&, LossOutputs* outputs, LossGradients*) {
                                if (!outputs || !is_wrong_call()) return;
                                outputs->owned_labels += static_cast<std::int64_t>(wrong_by);
                              },
                              "lens=5+8 vocab=24 mask=all microbatches=2", {2, 1}),
                  "owned_labels_sum_to_valid_tokens ")
            << wrong << " " << rank << " " << call;
      }
    }
  }
}

/// Moves one number of a column to the next float32.
template <std::size_t column>
void next_number(const LossInputs&, LossOutputs* outputs, LossGradients*) {
  if (!outputs) return;
  const std::span<float> numbers = outputs->tokens.columns()[column];
  numbers[0] = std::nextafter(numbers[0], -1000.0f);
}

constexpr std::size_t column_of_outputs(RowTerm term) {
  return 1 + static_cast<std::size_t>(term);
}

TEST(MergedInvariants, RanksWithTheSameRowsHoldTheSameBitsInEveryColumn) {
  for (const Spoil spoil : {next_number<0>, next_number<column_of_outputs(RowTerm::entropy)>,
                            next_number<column_of_outputs(RowTerm::vocab_min)>,
                            next_number<column_of_outputs(RowTerm::vocab_max)>}) {
    EXPECT_THAT(failures_on(1, spoil, kBatch, {2, 1}), HasSubstr("same_bits_on_all_ranks"));
    // CP ranks that return the whole pack.
    EXPECT_THAT(failures_on(1, spoil, kBatch, {1, 2}, "fused"),
                HasSubstr("same_bits_on_all_ranks"));
  }
}

TEST(MergedInvariants, AnotherGradientOfHiddenStatesIsNamedByRankAndMicrobatch) {
  calls_so_far = 0;
  wrong_call = 0;
  TrialSetup setup = make_trial(
      prepare(make_problem(parse_case("lens=8+16 vocab=24 hidden=6 mask=all microbatches=2"))),
      "linear_ce", {2, 1});
  setup.implementation = std::make_shared<Spoiled>(
      "linear_ce",
      [](const LossInputs&, LossOutputs*, LossGradients* gradients) {
        if (gradients && is_wrong_call()) static_cast<float*>(gradients->hidden)[0] += 1;
      },
      1);
  const TrialRecord record = run_trial(setup, std::chrono::seconds(60)).record;
  const auto found = std::find_if(
      record.invariants.begin(), record.invariants.end(),
      [](const InvariantRecord& invariant) { return invariant.name == "same_bits_on_all_ranks"; });
  ASSERT_NE(found, record.invariants.end());
  EXPECT_EQ(found->detail, "rank 1 holds another d hidden than its first TP rank (microbatch 0)");
}

TEST(MergedInvariants, ALogprobMayExceedZeroByItsRoundingAndNoMore) {
  // One id, whose float64 logit is 1e4: lp = 0 within 4 u lse + 54 u, and above 0 within
  // u (4 * 8 + 22).
  for (const auto& [share, holds] : {std::pair(0.9, true), std::pair(1.5, false)}) {
    wrong_by = share * 54 * 0x1p-24;
    EXPECT_EQ(failures_on(0,
                          [](const LossInputs&, LossOutputs* outputs, LossGradients*) {
                            if (outputs) outputs->tokens.logprobs[0] = static_cast<float>(wrong_by);
                          },
                          "lens=2 mask=all vocab=1 values=offset dtype=f64", {1, 1}),
              holds ? "" : "logprobs_nonpositive ")
        << share;
  }
}

}  // namespace
}  // namespace lossgrid
