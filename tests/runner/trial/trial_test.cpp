// SPDX-License-Identifier: Apache-2.0
// Trials from the outside: causes for which they fail, are skipped or stop, and their records then.
#include "harness/runner/trial/trial.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <new>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "harness/runner/job/problem_cache.h"
#include "spoiled.h"

namespace lossgrid {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

TrialSetup setup_of(const std::string& case_text, const std::string& implementation,
                    const Grid& grid) {
  const PreparedProblem prepared = prepare(make_problem(parse_case(case_text)));
  return make_trial(prepared, implementation, grid);
}

TEST(Trial, NamesTheRowOfADoubledGradient) {
  const TrialRecord record =
      run_trial(setup_of("lens=5+8 vocab=24 mask=all", "mutant/gradient_times_2", {2, 2}),
                seconds(60))
          .record;
  EXPECT_EQ(record.status, TrialStatus::failed);
  EXPECT_THAT(record.reason, HasSubstr("grad_logits: ratio"));
  for (const CheckRecord& check : record.checks) {
    if (check.name != "grad_logits") {
      EXPECT_TRUE(check.passed || check.name == "grad_logits_bias") << check.name;
      continue;
    }
    ASSERT_TRUE(check.worst);
    EXPECT_NEAR(check.worst->got, 2 * check.worst->want, 1e-6);
    EXPECT_GE(check.worst->token, 0);
    EXPECT_GE(check.worst->vocab_id, 0);
  }
}

using Calls = std::map<std::string, std::pair<std::int64_t, std::int64_t>>;

/// Returns calls and payload by "phase group operation".
Calls calls_of(const std::string& case_text, const std::string& implementation, const Grid& grid) {
  const TrialRecord record =
      run_trial(setup_of(case_text, implementation, grid), seconds(60)).record;
  EXPECT_EQ(record.status, TrialStatus::passed) << record.reason;
  Calls calls;
  for (const CommunicationRecord& row : record.communication) {
    calls[row.phase + " " + row.group + " " + row.operation] = {row.measured_calls,
                                                                row.measured_payload_bytes};
  }
  return calls;
}

TEST(Trial, RecordsCostsBesideTheirPrediction) {
  // T_pad = 24, T_c = 12, B = 2: 3 B TP all-reduces of 12 T_c bytes together, B CP gathers of 4 T_c
  // bytes together, B CP all-reduces of 4 T_pad bytes together.
  const Calls plain =
      calls_of("lens=8+16 vocab=24 mask=all statistics=false", "per_sequence", {2, 2});
  EXPECT_EQ(plain, (Calls{{"forward tp all_reduce", {6, 144}},
                          {"forward cp all_gather", {2, 48}},
                          {"backward cp all_reduce", {2, 96}}}));
  // With statistics the same calls carry 20 T_c and 16 T_c bytes.
  const Calls statistics = calls_of("lens=8+16 vocab=24 mask=all", "per_sequence", {2, 2});
  EXPECT_EQ(statistics, (Calls{{"forward tp all_reduce", {6, 240}},
                               {"forward cp all_gather", {2, 192}},
                               {"backward cp all_reduce", {2, 96}}}));
}

TEST(Trial, RecordsMemoryOfEveryRankAndPhase) {
  const TrialRecord record =
      run_trial(setup_of("lens=8+16 vocab=24 microbatches=2", "fused", {2, 2, 2}), seconds(60))
          .record;
  ASSERT_EQ(record.status, TrialStatus::passed) << record.reason;
  EXPECT_EQ(record.memory.size(), 24u);  // 8 ranks, 3 phases
  // Its plan allocates the whole workspace of `fused`.
  for (const PhaseMemoryRecord& phase : record.memory) {
    EXPECT_EQ(phase.measured_allocations > 0, phase.phase == "plan") << phase.phase;
  }
  EXPECT_EQ(record.dp, 2);
  EXPECT_EQ(record.microbatches, 2);
}

TEST(Trial, DpRanksExchangeTwoCountsAndOneResult) {
  const Calls calls = calls_of("lens=8+16+4 vocab=24 statistics=false", "cp_local", {1, 1, 2});
  // Two counts; the loss with sum and count of three metrics; two maxima for each of them.
  EXPECT_EQ(calls.at("batch dp all_reduce"),
            (std::pair<std::int64_t, std::int64_t>{3, 16 + 8 * (1 + 2 * 3) + 8 * 2 * 3}));
}

TEST(Trial, FusedGathersOnceWhateverTheNumberOfSequences) {
  for (const char* lens : {"8", "8+8+8+8"}) {
    const TrialRecord record =
        run_trial(setup_of(std::string("vocab=24 lens=") + lens, "fused", {1, 4}), seconds(60))
            .record;
    for (const CommunicationRecord& row : record.communication) {
      EXPECT_EQ(row.measured_calls, 1) << row.phase << row.operation;
    }
  }
}

TEST(Trial, CpLocalMovesNothingPerTokenOverCp) {
  const std::string gspo =
      "objective=clipped_pg objective.token_level_loss=false "
      "objective.sequence_level_importance_ratios=true ";
  for (const std::string& objective : {std::string(), gspo, std::string("objective=dpo ")}) {
    const Calls few = calls_of(objective + "lens=8+8 vocab=24", "cp_local", {1, 4});
    const Calls many = calls_of(objective + "lens=64+128 vocab=24", "cp_local", {1, 4});
    ASSERT_TRUE(few.contains("forward cp all_reduce")) << objective;
    EXPECT_EQ(few.at("forward cp all_reduce"), many.at("forward cp all_reduce")) << objective;
    // Sums of sequences, totals and maxima.
    EXPECT_EQ(few.at("forward cp all_reduce").first, 3) << objective;
    for (const auto& [what, calls] : many) {
      EXPECT_TRUE(what.find("cp") == std::string::npos || what == "forward cp all_reduce") << what;
    }
  }
  // Without statistics nll has two sums and no sequences: one call of two numbers.
  const Calls plain = calls_of("lens=64+64 vocab=24 statistics=false", "cp_local", {1, 4});
  EXPECT_EQ(plain.at("forward cp all_reduce"), (std::pair<std::int64_t, std::int64_t>{1, 16}));
}

TEST(Trial, AMutantThatAllocatesMoreThanItDeclaresFails) {
  const TrialRecord record =
      run_trial(setup_of("lens=8+16 vocab=24", "mutant/undeclared_gather", {1, 2}), seconds(60))
          .record;
  EXPECT_EQ(record.status, TrialStatus::failed);
  EXPECT_THAT(record.reason, HasSubstr("memory: rank 0 plan needed"));
  EXPECT_THAT(record.reason, HasSubstr("communication: rank 0 forward cp all_gather: 1 calls"));
  for (const CheckRecord& check : record.checks) EXPECT_TRUE(check.passed) << check.name;
}

TEST(Trial, ATrialThatDoesNotFitIsSkippedWithNeedAndHave) {
  // 2^40 logits: never allocated, only predicted.
  const CaseSpec spec = parse_case("lens=1048576 vocab=1048576");
  Problem problem;
  problem.spec = spec;
  problem.lengths = {1048576};
  problem.cu_seqlens = {0, 1048576};
  problem.input_ids.assign(1048576, 0);
  problem.token_mask.assign(1048576, 1);
  problem.sample_mask = {1};
  problem.logits = make_random_logits(spec, problem.row_targets());
  TrialSetup setup;
  setup.problem = std::make_shared<const Problem>(problem);
  setup.objective = make_objective({}, false);
  setup.truth = std::make_shared<const Truth>();
  setup.implementation_text = "cp_local";
  setup.implementation = make_implementation("cp_local");
  setup.microbatches = {{setup.grid, {{setup.problem, setup.truth}}}};
  const TrialRecord record = run_trial(setup, seconds(60)).record;
  EXPECT_EQ(record.status, TrialStatus::skipped);
  EXPECT_THAT(record.reason, HasSubstr("not enough memory: needs 8.0 TiB"));
  EXPECT_THAT(record.reason, HasSubstr("this machine has"));
}

TEST(Trial, ARankThatThrowsFailsTheTrialAndNamesItself) {
  TrialSetup setup = setup_of("lens=8+16 vocab=24", "fused", {2, 2});
  setup.fault = parse_fault("rank=2,call=2,kind=throw");
  const TrialOutcome outcome = run_trial(setup, seconds(60));
  EXPECT_EQ(outcome.record.status, TrialStatus::error);
  EXPECT_EQ(outcome.record.first_failed_rank, 2);
  EXPECT_THAT(outcome.record.reason, HasSubstr("rank 2"));
  EXPECT_FALSE(outcome.must_end);
}

TEST(Trial, ARankThatFailsInItsSecondMicrobatchFailsTheOtherDpRanks) {
  for (const char* kind : {"throw", "leave"}) {
    TrialSetup setup = setup_of("lens=8+16+4+6+9+3 vocab=24 microbatches=2", "cp_local", {1, 2, 2});
    // Three TP calls and three CP calls by microbatch: the eighth is in the second one.
    setup.fault = parse_fault(std::string("rank=3,call=8,kind=") + kind);
    const TrialOutcome outcome = run_trial(setup, seconds(60));
    EXPECT_EQ(outcome.record.status, TrialStatus::error) << kind;
    EXPECT_EQ(outcome.record.first_failed_rank, 3) << kind;
  }
}

TEST(Trial, ARankWithoutMemoryHasAStatusOfItsOwn) {
  TrialSetup setup = setup_of("lens=8+16 vocab=24", "fused", {2, 2});
  setup.implementation = std::make_shared<Spoiled>(
      "fused", [](const LossInputs&, LossOutputs* outputs, LossGradients*) {
        if (outputs) throw std::bad_alloc();
      });
  const TrialOutcome outcome = run_trial(setup, seconds(60));
  EXPECT_EQ(outcome.record.status, TrialStatus::out_of_memory);
  EXPECT_THAT(outcome.record.reason, HasSubstr("out of memory"));
}

TEST(Trial, ARankThatLeavesFailsTheTrial) {
  TrialSetup setup = setup_of("lens=8+16 vocab=24", "fused", {2, 2});
  setup.fault = parse_fault("rank=1,call=3,kind=leave");
  const TrialOutcome outcome = run_trial(setup, seconds(60));
  EXPECT_EQ(outcome.record.status, TrialStatus::error);
  EXPECT_EQ(outcome.record.first_failed_rank, 1);
}

// --- implementations that break one promise each -----------------------------------------------

std::string failed_invariants(Spoil spoil, const Grid& grid = {1, 2}) {
  TrialSetup setup = setup_of("lens=8+16 vocab=24 mask=all", "cp_local", grid);
  setup.implementation = std::make_shared<Spoiled>("cp_local", spoil);
  const TrialRecord record = run_trial(setup, seconds(60)).record;
  EXPECT_EQ(record.status, TrialStatus::failed);
  return failures_of(record);
}

TEST(Invariants, SeeAWriteToTheInputs) {
  EXPECT_THAT(
      failed_invariants([](const LossInputs& inputs, LossOutputs*, LossGradients* gradients) {
        if (gradients) const_cast<float*>(static_cast<const float*>(inputs.logits))[0] += 1;
      }),
      HasSubstr("inputs_unmodified"));
}

TEST(Invariants, SeeAWriteBehindTheGradient) {
  EXPECT_THAT(failed_invariants([](const LossInputs&, LossOutputs*, LossGradients* gradients) {
                if (gradients) static_cast<float*>(gradients->logits)[12 * 24] = 0;
              }),
              HasSubstr("guard_bands_intact"));
}

TEST(Invariants, SeeAnElementThatWasNotWritten) {
  EXPECT_THAT(failed_invariants([](const LossInputs&, LossOutputs*, LossGradients* gradients) {
                if (!gradients) return;
                const std::uint16_t poison[2] = {kPoisonPattern, kPoisonPattern};
                std::memcpy(static_cast<float*>(gradients->logits) + 3, poison, sizeof(poison));
              }),
              HasSubstr("every_element_written"));
}

TEST(Invariants, SeeRanksThatDisagree) {
  static std::atomic<int> calls{0};
  EXPECT_THAT(failed_invariants([](const LossInputs&, LossOutputs* outputs, LossGradients*) {
                if (outputs && calls++ % 2 == 0) outputs->result.loss += 1e-12;
              }),
              HasSubstr("same_bits_on_all_ranks"));
}

TEST(Invariants, SeeBitsThatChangeFromRunToRun) {
  static std::atomic<int> calls{0};
  EXPECT_THAT(failed_invariants(
                  [](const LossInputs&, LossOutputs*, LossGradients* gradients) {
                    if (!gradients) return;
                    float& g = static_cast<float*>(gradients->logits)[0];
                    if (calls++ == 1) g = std::nextafter(g, 1.0f);
                  },
                  {1, 1}),
              HasSubstr("run_to_run"));
}

TEST(Invariants, SeePositiveLogprobs) {
  EXPECT_THAT(failed_invariants([](const LossInputs&, LossOutputs* outputs, LossGradients*) {
                if (outputs) outputs->tokens.logprobs[0] = 0.5f;
              }),
              HasSubstr("logprobs_nonpositive"));
}

TEST(Invariants, SeeAnEntropyOutOfRange) {
  EXPECT_THAT(failed_invariants([](const LossInputs&, LossOutputs* outputs, LossGradients*) {
                if (outputs) outputs->tokens.terms[RowTerm::entropy][0] = -0.5f;
              }),
              HasSubstr("entropy_in_range"));
  EXPECT_THAT(failed_invariants([](const LossInputs&, LossOutputs* outputs, LossGradients*) {
                if (outputs) outputs->tokens.terms[RowTerm::entropy][0] = 3.5f;  // ln 24 is 3.18
              }),
              HasSubstr("entropy_in_range"));
}

}  // namespace
}  // namespace lossgrid
