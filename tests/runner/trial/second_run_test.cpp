// SPDX-License-Identifier: Apache-2.0
// The passes behind the first one: a second run with the same inputs, which must repeat every bit,
// and a forward pass with shifted logits, whose log-probabilities must stay.
#include <atomic>
#include <cmath>
#include <utility>

#include <gmock/gmock.h>

#include "harness/runner/job/problem_cache.h"
#include "harness/runner/trial/trial.h"
#include "spoiled.h"

namespace lossgrid {
namespace {

// Passes forward: 0 is checked, 1 is the second run, 2 the microbatch in flight beside it, 3 has
// shifted logits. Backward: 0, 1, and 2 of the microbatch in flight.
std::atomic<int> passes{0};
std::atomic<double> shifted_logprob{0};

std::string failures_of_pass(Spoil spoil, const std::string& text = "lens=8 vocab=24 mask=all",
                             const char* base = "cp_local") {
  passes = 0;
  TrialSetup setup = make_trial(prepare(make_problem(parse_case(text))), base, {1, 1});
  setup.implementation = std::make_shared<Spoiled>(base, spoil);
  return failures_of(run_trial(setup, std::chrono::seconds(60)).record);
}

void next_bits(float& x) {
  x = std::nextafter(x, 1000.0f);
}

using ChangeOutput = void (*)(LossOutputs&);
std::atomic<ChangeOutput> change_output{nullptr};

/// Changes something in forward pass 1 of the first microbatch.
void spoil_second_run(const LossInputs&, LossOutputs* outputs, LossGradients*) {
  if (outputs && passes++ == 1) change_output.load()(*outputs);
}

TEST(SecondRun, RepeatsEveryOutput) {
  const ChangeOutput changes[] = {
      [](LossOutputs& o) { o.result.loss = std::nextafter(o.result.loss, 9.0); },
      [](LossOutputs& o) { o.result.metrics["ppl_avg"].amount += 1e-12; },
      [](LossOutputs& o) { next_bits(o.tokens.logprobs[6]); },
      [](LossOutputs& o) { next_bits(o.tokens.terms[RowTerm::entropy][0]); },
      [](LossOutputs& o) { next_bits(o.tokens.terms[RowTerm::vocab_min][0]); },
      [](LossOutputs& o) { next_bits(o.tokens.terms[RowTerm::vocab_max][0]); },
      [](LossOutputs& o) { std::swap(o.tokens.logprobs[0], o.tokens.logprobs[1]); },
  };
  for (const ChangeOutput& change : changes) {
    change_output = change;
    EXPECT_EQ(failures_of_pass(spoil_second_run), "run_to_run ") << &change - changes;
    // The first one of two microbatches is not repeated.
    EXPECT_EQ(failures_of_pass(spoil_second_run, "lens=8+8 vocab=24 mask=all microbatches=2"),
              "run_to_run ")
        << &change - changes;
  }
}

TEST(SecondRun, RepeatsEveryGradient) {
  EXPECT_EQ(failures_of_pass([](const LossInputs&, LossOutputs*, LossGradients* gradients) {
              // The last column of row 6, the last one that is trained on.
              if (gradients && passes++ == 1) {
                next_bits(static_cast<float*>(gradients->logits)[7 * 24 - 1]);
              }
            }),
            "run_to_run ");
  EXPECT_EQ(failures_of_pass(
                [](const LossInputs&, LossOutputs*, LossGradients* gradients) {
                  if (gradients && passes++ == 1) {
                    next_bits(static_cast<float*>(gradients->hidden)[7 * 6 - 1]);
                  }
                },
                "lens=8 vocab=24 hidden=6 mask=all", "linear_ce"),
            "run_to_run ");
}

TEST(ShiftedRun, KeepsTheLogprobOfEveryRow) {
  for (const char* dtype : {"f32", "f64"}) {
    // All logits are 0, then 16; V = 8, lp = -ln 8. The bound has the rounding of the sums, where
    // lse = 16 + ln 8 counts for float64 logits only:
    //   u (4 (8 + 2 ln 8 + lse) + 22) + u_in (16 + 16)
    const bool is_f32 = std::string(dtype) == "f32";
    const double u_in = is_f32 ? 0x1p-24 : 0x1p-53;
    const double lse = is_f32 ? 0 : 16 + 2.0794415;
    const double bound = 0x1p-24 * (4 * (8 + 2 * 2.0794415 + lse) + 22) + u_in * 32;
    for (const auto& [share, holds] : {std::pair(0.9, true), std::pair(1.5, false)}) {
      shifted_logprob = -2.0794415416798357 - share * bound;
      EXPECT_EQ(failures_of_pass(
                    [](const LossInputs&, LossOutputs* outputs, LossGradients*) {
                      if (!outputs || passes++ != 3) return;
                      outputs->tokens.logprobs[2] = static_cast<float>(shifted_logprob);
                    },
                    std::string("lens=4 vocab=8 mask=all scale=0 dtype=") + dtype),
                holds ? "" : "shift_invariance ")
          << dtype << share;
    }
  }
}

TEST(ShiftedRun, HasShiftedLogits) {
  EXPECT_EQ(failures_of_pass(
                [](const LossInputs& inputs, LossOutputs* outputs, LossGradients*) {
                  const float first = *static_cast<const float*>(inputs.logits);
                  if (outputs && first == 16) outputs->tokens.logprobs[0] -= 1;
                },
                "lens=4 vocab=8 mask=all scale=0"),
            "shift_invariance ");
}

/// First input of the latest forward, whatever its plan.
std::atomic<float> latest_input{0};
/// Changes a gradient for which a plan has another input than the latest forward had.
std::atomic<void (*)(LossGradients&)> mix_up{nullptr};

void share_state(const LossInputs& inputs, LossOutputs* outputs, LossGradients* gradients) {
  const float first =
      *static_cast<const float*>(inputs.logits != nullptr ? inputs.logits : inputs.hidden);
  if (outputs) latest_input = first;
  if (gradients && first != latest_input) mix_up.load()(*gradients);
}

TEST(MicrobatchesInFlight, FindsStateOutsideOfThePlan) {
  const char* both = "microbatches_in_flight run_to_run ";
  mix_up = [](LossGradients& gradients) { static_cast<float*>(gradients.logits)[0] += 1; };
  EXPECT_EQ(failures_of_pass(share_state), both);
  EXPECT_EQ(failures_of_pass(share_state, "lens=8+8 vocab=24 mask=all microbatches=2"), both);
  const char* linear = "lens=8 vocab=24 hidden=6 mask=all";
  mix_up = [](LossGradients& gradients) { static_cast<float*>(gradients.hidden)[0] = NAN; };
  EXPECT_EQ(failures_of_pass(share_state, linear, "linear_ce"), both);
  mix_up = [](LossGradients& gradients) { gradients.weight[0] += 10; };
  EXPECT_EQ(failures_of_pass(share_state, linear, "linear_ce"), both);
}

TEST(MicrobatchesInFlight, LeavesOtherOrdersOfAdditionsToTheVerdictOnBits) {
  mix_up = [](LossGradients& gradients) { next_bits(static_cast<float*>(gradients.logits)[0]); };
  EXPECT_EQ(failures_of_pass(share_state), "run_to_run ");
}

TEST(MicrobatchesInFlight, LeaveRoundingsOfAGradientThatIsNothingElse) {
  mix_up = [](LossGradients& gradients) { static_cast<float*>(gradients.logits)[0] += 1e-9f; };
  EXPECT_EQ(failures_of_pass(share_state, "lens=5 vocab=1 mask=all"), "run_to_run ");
  mix_up = [](LossGradients& gradients) { static_cast<float*>(gradients.logits)[0] += 1e-3f; };
  EXPECT_THAT(failures_of_pass(share_state, "lens=5 vocab=1 mask=all"),
              ::testing::HasSubstr("microbatches_in_flight"));
}

TEST(MicrobatchesInFlight, RunWhereTheyCan) {
  const auto status = [](const char* base, const std::string& text) {
    const TrialSetup setup = make_trial(prepare(make_problem(parse_case(text))), base, {1, 1});
    for (const InvariantRecord& invariant :
         run_trial(setup, std::chrono::seconds(60)).record.invariants) {
      if (invariant.name == "microbatches_in_flight") return invariant.status + invariant.detail;
    }
    return std::string("missing");
  };
  EXPECT_EQ(status("fused", "lens=8 vocab=24"), "passed");
  EXPECT_EQ(status("linear_ce", "lens=8 vocab=24 hidden=6"), "passed");
  EXPECT_EQ(status("one_sweep", "lens=8 vocab=24 statistics=false"),
            "not_runforward and backward are one call");
  EXPECT_EQ(status("fused", "lens=2100 vocab=500 statistics=false"),
            "not_runmore than 2^20 logits");
}

}  // namespace
}  // namespace lossgrid
