// SPDX-License-Identifier: Apache-2.0
// Trials from hidden states of implementations that break one promise each: the check that fails,
// and the element that it names.
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/runner/trial/trial.h"
#include "linear_setup.h"
#include "spoiled.h"

namespace lossgrid {
namespace {

using namespace linear_setup;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TrialRecord spoiled(Spoil spoil, const Grid& grid, const std::string& case_text = kCase) {
  TrialSetup setup = setup_of(case_text, "linear_ce:chunk_tokens=4", grid);
  setup.implementation = std::make_shared<Spoiled>("linear_ce:chunk_tokens=4", spoil);
  const TrialRecord record = run_trial(setup, seconds(60)).record;
  EXPECT_EQ(record.status, TrialStatus::failed);
  return record;
}

TEST(LinearPromises, NamesTheElementOfHiddenStatesThatIsWrong) {
  // The fourth row of each part of 12 rows: of the second part row 15, token 7 of sequence 1.
  const TrialRecord record = spoiled(
      [](const LossInputs&, LossOutputs*, LossGradients* gradients) {
        if (gradients) static_cast<float*>(gradients->hidden)[3 * kHidden + 2] += 1e-3f;
      },
      {2, 1, 1, true});
  const CheckRecord& check = check_of(record, "grad_hidden");
  EXPECT_FALSE(check.passed);
  EXPECT_EQ(check.beyond_bound, 2);
  ASSERT_TRUE(check.worst);
  EXPECT_EQ(check.worst->token, check.worst->rank == 0 ? 3 : 7);
  EXPECT_EQ(check.worst->sequence, check.worst->rank);
  EXPECT_NEAR(check.worst->got - check.worst->want, 1e-3, 1e-6);
}

TEST(LinearPromises, NamesTheIdOfTheWeightThatIsWrong) {
  for (const Grid& grid : {Grid{2, 2}, Grid{2, 1, 2, true}}) {
    const TrialRecord record = spoiled(
        [](const LossInputs&, LossOutputs*, LossGradients* gradients) {
          if (gradients) gradients->weight[4 * kHidden] += 1e-3f;
        },
        grid);
    EXPECT_THAT(failures_of(record), HasSubstr("grad_weight "));
    EXPECT_THAT(failures_of(record), Not(HasSubstr("grad_hidden")));
    const CheckRecord& check = check_of(record, "grad_weight");
    EXPECT_EQ(check.beyond_bound, 2);
    ASSERT_TRUE(check.worst);
    EXPECT_EQ(check.worst->vocab_id % kWidth, 4);
    // Once for each of the two ranks that the gradient is summed over.
    EXPECT_NEAR(check.worst->got - check.worst->want, 2e-3, 1e-6);
  }
}

TEST(LinearPromises, SeesAWriteToAPaddingId) {
  const TrialRecord rows = spoiled(
      [](const LossInputs&, LossOutputs*, LossGradients* gradients) {
        if (gradients) gradients->weight[12 * kHidden + 1] += 1e-3f;
      },
      {2, 1});
  EXPECT_THAT(invariant_with_detail(rows, "padded_vocab_zero"),
              "failed: 1 elements, first: rank 1, vocab id 25");
  const TrialRecord columns = spoiled(
      [](const LossInputs&, LossOutputs*, LossGradients* gradients) {
        if (gradients) gradients->weight[2 * kWidth + 12] = std::nanf("");
      },
      {2, 1}, std::string(kCase) + " weight_layout=hidden_vocab tied_embedding=true");
  EXPECT_THAT(invariant_with_detail(columns, "padded_vocab_zero"), HasSubstr("vocab id 25"));
}

TEST(LinearPromises, SeesAMaskedRowThatIsNotZero) {
  const TrialRecord record = spoiled(
      [](const LossInputs&, LossOutputs*, LossGradients* gradients) {
        if (gradients) static_cast<float*>(gradients->hidden)[7 * kHidden + 5] = 1e-30f;
      },
      {1, 1});
  EXPECT_EQ(failures_of(record), "masked_rows_zero ");
  EXPECT_THAT(invariant_with_detail(record, "masked_rows_zero"), HasSubstr("sequence 0, token 7"));
}

TEST(LinearPromises, SeesAnElementThatWasNotWritten) {
  const TrialRecord record = spoiled(
      [](const LossInputs&, LossOutputs*, LossGradients* gradients) {
        if (!gradients) return;
        const std::uint16_t poison[2] = {kPoisonPattern, kPoisonPattern};
        std::memcpy(static_cast<float*>(gradients->hidden) + 3, poison, sizeof(poison));
      },
      {1, 1});
  EXPECT_THAT(failures_of(record), HasSubstr("every_element_written"));
  EXPECT_EQ(invariant_with_detail(record, "every_element_written"),
            "failed: 1 elements, first: rank 0, sequence 0, token 0");
}

TEST(LinearPromises, SeesANumberThatIsNone) {
  EXPECT_THAT(failures_of(spoiled(
                  [](const LossInputs&, LossOutputs*, LossGradients* gradients) {
                    if (gradients) gradients->weight[3] = std::numeric_limits<float>::infinity();
                  },
                  {1, 1})),
              AllOf(HasSubstr("gradients_finite"), HasSubstr("grad_weight ")));
  EXPECT_THAT(failures_of(spoiled(
                  [](const LossInputs&, LossOutputs*, LossGradients* gradients) {
                    if (gradients) static_cast<float*>(gradients->hidden)[3] = std::nanf("");
                  },
                  {1, 1})),
              AllOf(HasSubstr("gradients_finite"), HasSubstr("grad_hidden ")));
}

TEST(LinearPromises, SeesAWriteToTheInputs) {
  EXPECT_EQ(failures_of(spoiled(
                            [](const LossInputs& inputs, LossOutputs*, LossGradients* gradients) {
                              if (gradients)
                                const_cast<float*>(static_cast<const float*>(inputs.weight))[5] = 1;
                            },
                            {1, 1}))
                .substr(0, 18),
            "inputs_unmodified ");
  EXPECT_THAT(failures_of(spoiled(
                  [](const LossInputs& inputs, LossOutputs*, LossGradients* gradients) {
                    if (gradients)
                      const_cast<float*>(static_cast<const float*>(inputs.hidden))[5] = 1;
                  },
                  {1, 1})),
              HasSubstr("inputs_unmodified"));
}

TEST(LinearPromises, SeesTpRanksThatHoldDifferentHiddenGradients) {
  static std::atomic<int> calls{0};
  const TrialRecord record = spoiled(
      [](const LossInputs&, LossOutputs*, LossGradients* gradients) {
        if (!gradients || calls++ != 0) return;
        float& g = static_cast<float*>(gradients->hidden)[0];
        g = std::nextafter(g, 1.0f);
      },
      {2, 1});
  EXPECT_THAT(invariant_with_detail(record, "same_bits_on_all_ranks"),
              HasSubstr("another d hidden"));
}

TEST(LinearPromises, SeesAWeightGradientThatChangesFromRunToRun) {
  static std::atomic<int> calls{0};
  const TrialRecord record = spoiled(
      [](const LossInputs&, LossOutputs*, LossGradients* gradients) {
        if (gradients && calls++ == 1) {
          gradients->weight[0] = std::nextafter(gradients->weight[0], 1.0f);
        }
      },
      {1, 1});
  EXPECT_EQ(failures_of(record), "run_to_run ");
}

/// Spoils a case with a bias.
TrialRecord spoiled_bias(Spoil spoil, const Grid& grid) {
  return spoiled(spoil, grid, std::string(kCase) + " lm_head_bias=true");
}

TEST(LinearPromises, NamesTheIdOfTheBiasThatIsWrong) {
  const TrialRecord record = spoiled_bias(
      [](const LossInputs&, LossOutputs*, LossGradients* gradients) {
        if (gradients) gradients->bias[4] += 1e-3f;
      },
      {2, 2});
  EXPECT_THAT(failures_of(record), HasSubstr("grad_bias "));
  EXPECT_THAT(failures_of(record), Not(HasSubstr("grad_weight")));
  const CheckRecord& check = check_of(record, "grad_bias");
  EXPECT_EQ(check.compared, 25);
  EXPECT_EQ(check.beyond_bound, 2);
  ASSERT_TRUE(check.worst);
  EXPECT_EQ(check.worst->vocab_id % kWidth, 4);
  EXPECT_NEAR(check.worst->got - check.worst->want, 2e-3, 1e-6);
}

TEST(LinearPromises, SeesAWriteToThePaddingOfABias) {
  const TrialRecord record = spoiled_bias(
      [](const LossInputs&, LossOutputs*, LossGradients* gradients) {
        if (gradients) gradients->bias[12] = std::nanf("");
      },
      {2, 1});
  EXPECT_EQ(invariant_with_detail(record, "padded_vocab_zero"),
            "failed: 1 elements, first: rank 1, vocab id 25");
}

TEST(LinearPromises, SeesABiasGradientThatIsNoNumber) {
  EXPECT_THAT(failures_of(spoiled_bias(
                  [](const LossInputs&, LossOutputs*, LossGradients* gradients) {
                    if (gradients) gradients->bias[3] = std::numeric_limits<float>::infinity();
                  },
                  {1, 1})),
              AllOf(HasSubstr("gradients_finite"), HasSubstr("grad_bias ")));
  EXPECT_THAT(failures_of(spoiled_bias(
                  [](const LossInputs&, LossOutputs*, LossGradients* gradients) {
                    if (!gradients) return;
                    const std::uint16_t poison[2] = {kPoisonPattern, kPoisonPattern};
                    std::memcpy(gradients->bias + 3, poison, sizeof(poison));
                  },
                  {1, 1})),
              HasSubstr("every_element_written"));
}

TEST(LinearPromises, SeesAWriteToTheBias) {
  EXPECT_THAT(failures_of(spoiled_bias(
                  [](const LossInputs& inputs, LossOutputs*, LossGradients* gradients) {
                    if (gradients)
                      const_cast<float*>(static_cast<const float*>(inputs.bias))[5] = 1;
                  },
                  {1, 1})),
              HasSubstr("inputs_unmodified"));
}

TEST(LinearPromises, SeesABiasGradientThatChangesFromRunToRun) {
  static std::atomic<int> calls{0};
  const TrialRecord record = spoiled_bias(
      [](const LossInputs&, LossOutputs*, LossGradients* gradients) {
        if (gradients && calls++ == 1) {
          gradients->bias[0] = std::nextafter(gradients->bias[0], 1.0f);
        }
      },
      {1, 1});
  EXPECT_EQ(failures_of(record), "run_to_run ");
}

}  // namespace
}  // namespace lossgrid
