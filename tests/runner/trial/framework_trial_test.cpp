// SPDX-License-Identifier: Apache-2.0
// Trials under a framework's convention: right stacks give the bits of no convention at all, wrong
// ones a gradient or metrics that are off by their factor, which the record names.
#include <cmath>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/problem/batch/partition.h"
#include "harness/problem/batch/sharding.h"
#include "harness/problem/case/framework.h"
#include "harness/runner/job/problem_cache.h"
#include "harness/runner/trial/trial.h"
#include "spoiled.h"

namespace lossgrid {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kFrameworkCase = "lens=8+6+11+4+9 vocab=40 microbatches=2";
const Grid kGrid{1, 2, 2};

TrialOutcome trial_of(const std::string& case_text, const std::string& implementation,
                      const Grid& grid) {
  TrialSetup setup = make_trial(prepare(make_problem(parse_case(case_text))), implementation, grid);
  setup.keep_outputs = true;
  return run_trial(setup, seconds(60));
}

TrialOutcome trial_under(const std::string& framework, const std::string& implementation,
                         const Grid& grid = kGrid, const std::string& text = kFrameworkCase) {
  return trial_of(text + " " + framework, implementation, grid);
}

const CheckRecord& check_of(const TrialRecord& record, std::string_view name) {
  for (const CheckRecord& check : record.checks) {
    if (check.name == name) return check;
  }
  throw Error(ErrorCode::internal, "no check " + std::string(name));
}

std::string scale_identity(const TrialRecord& record) {
  for (const InvariantRecord& invariant : record.invariants) {
    if (invariant.name == "scale_identity") return invariant.status + ": " + invariant.detail;
  }
  return "missing";
}

/// Returns the factor of `got` over `want`, the same for every element up to rounding.
double ratio(const std::vector<double>& got, const std::vector<double>& want) {
  double found = 0;
  EXPECT_EQ(got.size(), want.size());
  for (std::size_t k = 0; k < want.size(); ++k) {
    if (want[k] == 0) {
      EXPECT_EQ(got[k], 0);
      continue;
    }
    if (found == 0) found = got[k] / want[k];
    EXPECT_NEAR(got[k] / want[k], found, 1e-6 * found);
  }
  return found;
}

const std::vector<std::string> kImplementations{"reference", "per_sequence", "fused", "cp_local",
                                                "one_sweep"};

TEST(Framework, RightStacksLeaveTheBits) {
  for (const Grid& grid : {kGrid, Grid{2, 3, 1}}) {
    for (const std::string& implementation : kImplementations) {
      const TrialRecord plain = trial_under("", implementation, grid).record;
      ASSERT_EQ(plain.status, TrialStatus::passed) << plain.reason;
      EXPECT_EQ(scale_identity(plain), "missing");
      for (const FrameworkPreset& preset : framework_presets()) {
        const Framework& framework = preset.framework;
        if (framework.net() != ScaleFactor{} || framework.metrics != ScaleFactor{}) continue;
        const TrialRecord record =
            trial_under("framework=" + preset.name, implementation, grid).record;
        EXPECT_EQ(record.status, TrialStatus::passed) << preset.name << ": " << record.reason;
        EXPECT_EQ(record.fingerprints, plain.fingerprints) << preset.name << " " << implementation;
        EXPECT_THAT(scale_identity(record), StartsWith("passed: loss "));
      }
    }
  }
}

TEST(Framework, WrongStacksAreOffByExactlyTheirFactor) {
  const std::map<std::string, double> wrong{
      {"nemo_rl_pp_adapter_gather_reduces", 2},
      {"areal_schedule_without_cp", 0.5},
      {"skyrl_extra_cp", 2},
      {"skyrl_metrics_over_cp_schedule_without_cp", 0.5},
  };
  for (const std::string& implementation : kImplementations) {
    const TrialOutcome plain = trial_under("", implementation);
    for (const auto& [name, factor] : wrong) {
      const TrialOutcome trial = trial_under("framework=" + name, implementation);
      const TrialRecord& record = trial.record;
      EXPECT_EQ(record.status, TrialStatus::failed) << name;
      EXPECT_EQ(ratio(trial.outputs->grad_logits, plain.outputs->grad_logits), factor) << name;
      EXPECT_FALSE(check_of(record, "grad_logits").passed);
      EXPECT_FALSE(check_of(record, "grad_logits_bias").passed);
      EXPECT_NEAR(check_of(record, "grad_logits_bias").error_abs, std::abs(factor - 1), 1e-5);
      EXPECT_TRUE(check_of(record, "loss").passed);
      EXPECT_TRUE(check_of(record, "logprobs").passed);
      EXPECT_THAT(scale_identity(record), StartsWith("failed: loss "));
      EXPECT_THAT(record.reason, HasSubstr("scale_identity: loss "));
    }
  }
}

TEST(Framework, FactorsThatAreNoPowerOfTwoShowAsWell) {
  const Grid grid{1, 3, 2};
  const TrialOutcome plain = trial_under("", "cp_local", grid);
  const TrialOutcome trial = trial_under("framework=areal_schedule_without_cp", "cp_local", grid);
  EXPECT_NEAR(ratio(trial.outputs->grad_logits, plain.outputs->grad_logits), 1.0 / 3, 1e-6);
  EXPECT_EQ(scale_identity(trial.record),
            "failed: loss dp*n_mb/cp x schedule 1/n_mb x gather cp x dp mean 1/(dp*cp) = 1/cp = "
            "0.333333, must be 1");
}

TEST(Framework, FactorsAreMadeOfTheGridAndTheMicrobatches) {
  const std::string text = "lens=8+6+11+4+9 vocab=40 microbatches=5";
  const Grid grid{1, 3, 2};
  const TrialOutcome plain = trial_under("", "fused", grid, text);
  for (const auto& [part, factor] : std::map<std::string, double>{
           {"framework.loss=dp", 2},
           {"framework.loss=cp", 3},
           {"framework.loss=n_mb", 5},
           {"framework.schedule=1/n_mb", 0.2},
           {"framework.gather=cp", 3},
           {"framework.dp_reduction=mean", 1.0 / 6},
           {"framework.loss=n_mb framework.schedule=dp framework.gather=cp", 30}}) {
    const TrialOutcome trial = trial_under(part, "fused", grid, text);
    EXPECT_NEAR(ratio(trial.outputs->grad_logits, plain.outputs->grad_logits) / factor, 1, 1e-6)
        << part;
  }
}

TEST(Framework, AWrongStackIsRightWithoutContextParallelism) {
  for (const FrameworkPreset& preset : framework_presets()) {
    const ScaleFactor net = preset.framework.net();
    if (net.dp != 0 || net.n_mb != 0) continue;  // wrong without it, too
    for (const Grid& grid : {Grid{1, 1}, Grid{1, 1, 2}}) {
      const TrialRecord record = trial_under("framework=" + preset.name, "fused", grid).record;
      EXPECT_EQ(record.status, TrialStatus::passed) << preset.name << ": " << record.reason;
    }
  }
  EXPECT_EQ(scale_identity(trial_under("framework=skyrl_extra_cp", "fused", {1, 1}).record),
            "passed: loss dp*cp*n_mb x schedule cp/n_mb x gather 1 x dp mean 1/(dp*cp) = cp = 1");
}

TEST(Framework, StacksThatForgetMicrobatchesOrDpAreOffByThem) {
  for (const auto& [name, factor] :
       std::map<std::string, double>{{"verl_megatron_without_n_mb", 0.5},
                                     {"torchtitan_mean_over_dp", 0.25},
                                     {"openrlhf_without_gas", 0.5},
                                     {"trl_dapo_accumulated", 0.5}}) {
    const TrialOutcome plain = trial_under("", "cp_local");
    const TrialOutcome trial = trial_under("framework=" + name, "cp_local");
    EXPECT_EQ(trial.record.status, TrialStatus::failed) << name;
    EXPECT_NEAR(ratio(trial.outputs->grad_logits, plain.outputs->grad_logits), factor, 1e-6);
    EXPECT_THAT(trial.record.reason, HasSubstr("scale_identity: loss "));
  }
}

/// Means of microbatches and of ranks weigh the rows of each by 1 / its own count.
TEST(Framework, MeansOfPartsWeighTheirRows) {
  for (const std::string& implementation : kImplementations) {
    for (const char* name : {"megatron_2_tuple", "megatron_3_tuple"}) {
      SCOPED_TRACE(implementation + " " + name);
      const TrialOutcome plain = trial_under("", implementation);
      const TrialOutcome trial = trial_under(std::string("framework=") + name, implementation);
      EXPECT_EQ(trial.record.status, TrialStatus::failed);
      EXPECT_FALSE(check_of(trial.record, "grad_logits").passed);
      EXPECT_TRUE(check_of(trial.record, "loss").passed);
      EXPECT_THAT(trial.record.reason, HasSubstr("times the weight for "));
      std::map<double, int> weights;
      const std::vector<double>& got = trial.outputs->grad_logits;
      const std::vector<double>& want = plain.outputs->grad_logits;
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t k = 0; k < got.size(); ++k) {
        if (std::abs(want[k]) < 1e-4) continue;
        ++weights[std::round(got[k] / want[k] * 1e4) / 1e4];
      }
      // One for each pack that has tokens, or for each CP rank of it.
      const Framework framework =
          stated_framework(parse_case(std::string("framework=") + name).framework).value();
      std::map<double, int> expected;
      const Problem whole = make_problem(parse_case(kFrameworkCase));
      for (const auto& of_rank : partition(whole, kGrid.dp, 1)) {
        for (const MicrobatchPlan& plan : of_rank) {
          const PackedBatch batch = pack(take_part(whole, plan, 2, kGrid.dp), kGrid);
          const ShiftedBatch rows = shift_targets(batch);
          TokenCounts tokens{.global = whole.denominators.valid_tokens};
          for (const std::uint8_t valid : rows.valid) tokens.pack += valid;
          for (int c = 0; c < kGrid.cp; ++c) {
            tokens.rank = 0;
            for (const std::int64_t row : cp_rows(batch, kGrid.cp, c)) {
              tokens.rank += rows.valid[row];
            }
            if (tokens.rank == 0) continue;
            const double weight =
                framework.gradient_weight({2, 2, 2}, tokens) * static_cast<double>(tokens.global);
            ++expected[std::round(weight * 1e4) / 1e4];
          }
        }
      }
      ASSERT_GT(expected.size(), 1u);
      for (const auto& [weight, count] : expected) EXPECT_TRUE(weights.contains(weight)) << weight;
      EXPECT_EQ(weights.size(), expected.size());
    }
  }
}

TEST(Framework, MeansOfPartsAreRightWhereTheirCountsAgree) {
  const std::string text = "lens=9+9 mask=all vocab=40 ";
  for (const std::string& implementation : kImplementations) {
    const TrialOutcome one =
        trial_under("framework=megatron_2_tuple", implementation, {2, 2}, text);
    EXPECT_EQ(one.record.status, TrialStatus::passed) << one.record.reason;
    const TrialOutcome ranks = trial_under("framework=trl_bnpo", implementation, {2, 1}, text);
    EXPECT_EQ(ranks.record.status, TrialStatus::passed) << ranks.record.reason;
  }
  EXPECT_THAT(
      scale_identity(trial_under("framework=megatron_2_tuple", "fused", {1, 2}, text).record),
      testing::EndsWith("over the tokens of the pack"));
}

TEST(Framework, MeansOfPartsTakeNoObjectiveThatWeighsItsTokens) {
  EXPECT_THROW(trial_under("framework=megatron_3_tuple", "fused", kGrid,
                           "objective=dpo objective.ld_alpha=0.5 lens=8+6+11+4 vocab=40"),
               Error);
}

TEST(Framework, MetricsSummedOverCpAgainFailAndTheGradientIsRight) {
  for (const std::string& implementation : kImplementations) {
    const TrialRecord plain = trial_under("", implementation).record;
    const TrialRecord record =
        trial_under("framework=skyrl_metrics_over_cp", implementation).record;
    EXPECT_EQ(record.status, TrialStatus::failed);
    EXPECT_THAT(scale_identity(record), StartsWith("passed"));
    EXPECT_TRUE(check_of(record, "grad_logits").passed);
    for (const auto& [name, value] : plain.metrics) {
      const std::string& reduction = plain.metric_reductions.at(name);
      const bool adds_up = reduction == "sum" || reduction == "count";
      EXPECT_EQ(*record.metrics.at(name), (adds_up ? 2 : 1) * *value) << name;
      EXPECT_EQ(check_of(record, "metric." + name).passed, !adds_up || *value == 0) << name;
    }
  }
}

TEST(Framework, HoldsForEveryObjectiveAndDtype) {
  for (const char* text :
       {"objective=clipped_pg objective.ratio_clip_max=0.28 lens=8+6+11+4 vocab=40 microbatches=3",
        "objective=dpo lens=8+6+11+4 vocab=40 microbatches=2",
        "objective.token_level_loss=false lens=8+6+11+4 vocab=40 dtype=bf16 statistics=false",
        "lens=8+6+11+4 vocab=40 dtype=f64"}) {
    for (const std::string implementation : {"reference", "fused", "cp_local"}) {
      const std::string grid_case(text);
      const TrialOutcome right =
          trial_under("framework=nemo_rl_megatron", implementation, {1, 3, 2}, grid_case);
      EXPECT_EQ(right.record.status, TrialStatus::passed) << text << ": " << right.record.reason;
      const TrialOutcome wrong =
          trial_under("framework=skyrl_extra_cp", implementation, {1, 3, 2}, grid_case);
      EXPECT_EQ(wrong.record.status, TrialStatus::failed) << text;
      EXPECT_NEAR(check_of(wrong.record, "grad_logits_bias").error_abs, 2, 0.02) << text;
    }
  }
}

TEST(Framework, ScalesTheGradientsOfHiddenStatesAndWeight) {
  const std::string text = "lens=8+6+11 vocab=25 hidden=6 microbatches=2";
  for (const std::string extra : {"", " tied_embedding=true"}) {
    for (const std::string implementation : {"reference", "linear_ce", "linear_ce_onepass"}) {
      const TrialOutcome plain = trial_under("", implementation, kGrid, text + extra);
      const TrialOutcome right =
          trial_under("framework=areal", implementation, kGrid, text + extra);
      EXPECT_EQ(right.record.status, TrialStatus::passed) << right.record.reason;
      EXPECT_EQ(right.record.fingerprints, plain.record.fingerprints) << implementation;
      const TrialOutcome wrong =
          trial_under("framework=skyrl_extra_cp", implementation, kGrid, text + extra);
      EXPECT_EQ(wrong.record.status, TrialStatus::failed);
      EXPECT_NEAR(check_of(wrong.record, "grad_hidden_bias").error_abs, 1, 1e-4);
      EXPECT_NEAR(check_of(wrong.record, "grad_weight_bias").error_abs, 1, 1e-4);
    }
  }
}

TEST(Framework, IsPartOfTheTrialsIdentity) {
  const TrialRecord record =
      trial_under("framework=skyrl framework.loss=dp*n_mb/1", "fused", {1, 2}).record;
  EXPECT_THAT(record.id, HasSubstr(" framework=skyrl framework.loss=dp*n_mb|tp1cp2|"));
  EXPECT_THAT(record.reproduce, HasSubstr("framework=skyrl framework.loss=dp*n_mb\""));
  EXPECT_EQ(record.case_parameters.at("framework"), "skyrl");
  EXPECT_EQ(record.case_parameters.at("framework.schedule"), "preset");
}

}  // namespace
}  // namespace lossgrid
