// SPDX-License-Identifier: Apache-2.0
// Engines reduce over DP and CP themselves: numbers that should be equal on all ranks are compared,
// and a mistake is named.
#include <gmock/gmock.h>

#include "python.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kEngines = LOSSGRID_SOURCE_DIR "/tests/external/engines/";
const std::string kBigramCase = "--case 'lens=9+14+2+7 vocab=64 hidden=64 hidden_values=one_hot'";

class Replicas : public WithTorch {
 protected:
  /// Runs engines of a file and returns their trials.
  ordered_json run_engines(const std::string& file, const std::string& names,
                           const std::string& grids, const std::string& python = kPython,
                           const std::string& of_case = kBigramCase) const {
    const std::string report = scratch_.file("replicas.json");
    const ProcessResult result = run_loaded(
        "run", {kEngines + file},
        fmt::format("{} --impl {} --grid {} --report {}", of_case, names, grids, report), python);
    EXPECT_LT(result.exit_code, 20) << result.out << result.err;
    return records_of(report, "trials");
  }

  static void expect_all(const ordered_json& trials, const std::string& status) {
    EXPECT_FALSE(trials.empty());
    for (const ordered_json& trial : trials) EXPECT_EQ(trial["status"], status) << trial;
  }

  /// Expects that each trial fails by an invariant and is explained by a sentence.
  static void expect_cause(const ordered_json& trials, const std::string& invariant,
                           const std::string& cause) {
    expect_all(trials, "failed");
    for (const ordered_json& trial : trials) {
      EXPECT_THAT(trial["reason"].get<std::string>(), HasSubstr(invariant)) << trial;
      EXPECT_THAT(trial["explanation"].dump(), HasSubstr(cause)) << trial["reason"];
    }
  }
};

const std::string kReplicaGrids = "tp1cp1dp2,tp1cp2,tp1cp2dp2";
const std::string kOtherGradient = "same_gradient_on_replicas: ";
const std::string kOtherLoss = "same_loss_on_replicas: ";

TEST_F(Replicas, RightEnginesAgree) {
  expect_all(run_engines("replica_engines.py", "right,slices", kReplicaGrids + ",tp2cp1dp2"),
             "passed");
}

TEST_F(Replicas, UnreducedGradientsAreNamed) {
  const char* file = "replica_engines.py";
  expect_cause(run_engines(file, "gradient_of_own_rows", kReplicaGrids), kOtherGradient,
               "these add up to the truth: not reduced over ");
  expect_cause(run_engines(file, "gradient_not_over_dp", "tp1cp2dp2"), kOtherGradient,
               "not reduced over DP, each rank holds that of its own rows");
  expect_cause(run_engines(file, "gradient_not_over_cp", "tp2cp2"), kOtherGradient,
               "not reduced over CP, each rank holds that of its own rows");
  expect_cause(run_engines(file, "gradient_on_one_rank", "tp1cp2dp2"), kOtherGradient,
               "grad_weight is the truth on dp rank 0, cp rank 0 only and 0 elsewhere");
  const std::string many_rows =
      "--case 'lens=40+40+40+40 mask=all vocab=8 hidden=8 hidden_values=one_hot'";
  expect_cause(run_engines(file, "gradient_in_own_order", "tp1cp1dp4", kPython, many_rows),
               kOtherGradient, "differs between ranks by roundings alone");
}

TEST_F(Replicas, GradientsReducedTwiceAreNamed) {
  expect_cause(run_engines("replica_engines.py", "gradient_twice_over_dp", "tp1cp1dp2,tp1cp2dp3"),
               "grad_weight", "x the truth: reduced over DP twice, or");
}

TEST_F(Replicas, LossAndMetricsAreCompared) {
  const char* file = "replica_engines.py";
  expect_cause(run_engines(file, "loss_of_own_rows", kReplicaGrids), kOtherLoss,
               "each rank reports that of its own rows times ");
  expect_cause(run_engines(file, "loss_of_dp_rank", "tp1cp2dp2"), kOtherLoss,
               "not reduced over DP, each rank reports that of its own rows times 2");
  for (const ordered_json& trial : run_engines(file, "metric_of_own_rows", "tp1cp1dp2")) {
    EXPECT_THAT(trial["reason"].get<std::string>(),
                HasSubstr(kOtherLoss + "rank 1 reports metric 'tokens' "))
        << trial;
  }
  for (const ordered_json& trial : run_engines(file, "loss_on_one_rank", "tp1cp1dp2")) {
    EXPECT_EQ(trial["status"], "error");
    EXPECT_THAT(trial["reason"].get<std::string>(), HasSubstr("returned no loss on this rank"));
  }
}

TEST_F(Replicas, LostAndRepeatedMicrobatchesAreExplained) {
  const std::string all_valid =
      "--case 'lens=9+14+5+7 mask=all vocab=64 hidden=64 hidden_values=one_hot'";
  const auto run = [&](const std::string& name) {
    return run_engines("replica_engines.py", name, "tp1cp1,tp2cp1", kPython, all_valid);
  };
  expect_all(run("microbatches_right"), "passed");
  expect_cause(run("gradient_doubles"), "grad_weight",
               "grad_weight counts sequences 0 and 3 4.000 times, sequence 1 2.000 times, sequence "
               "2 once: microbatches that count more than once");
  expect_cause(run("gradient_of_last_microbatch"), "grad_weight",
               "sequence 2 once: a microbatch that is left out?");
  expect_cause(run("loss_of_last_microbatch"),
               "loss: ", "loss is that of sequence 2 alone: of one of 3 microbatches?");
}

TEST_F(Replicas, InSlicesHaveToCoverTheWeight) {
  const char* file = "replica_engines.py";
  for (const auto& [name, reason] : std::vector<std::pair<std::string, std::string>>{
           {"slices_overlap", "gradient_slices_cover: slices overlap or have gaps: "},
           {"slices_with_gaps", "elements are held by no rank, first: "},
           {"slices_are_everything", "gradients=\"replicated\" would declare it"},
           {"slices_not_reduced", "grad_weight: ratio "},
           {"slices_unnamed", "returned no \"own\""}}) {
    for (const ordered_json& trial : run_engines(file, name, "tp1cp1dp2")) {
      EXPECT_THAT(trial["status"], ::testing::AnyOf("failed", "error")) << trial;
      EXPECT_THAT(trial["reason"].get<std::string>(), HasSubstr(reason)) << trial;
    }
  }
}

TEST_F(Replicas, SlicesTakenBeforeTheReductionAreNamed) {
  const char* file = "replica_engines.py";
  const std::string each_slice = "each rank's slice of grad_weight is ";
  expect_cause(run_engines(file, "slices_not_reduced", "tp1cp1dp2,tp2cp1dp3"), "grad_weight: ",
               each_slice +
                   "that of the rows of its own dp rank alone: the slices were taken "
                   "before the gradient was reduced over DP");
  expect_cause(run_engines(file, "slices_not_reduced,slices_not_over_cp", "tp1cp2"),
               "grad_weight: ", "its own cp rank alone: the slices were taken before the gradient");
  expect_cause(run_engines(file, "slices_not_over_dp", "tp1cp2dp2"),
               "grad_weight: ", "its own dp rank alone: the slices were taken before the gradient");
  expect_cause(run_engines(file, "slices_not_reduced", "tp1cp2dp2"),
               "grad_weight: ", "its own rank alone: the slices were taken before the gradient");
  expect_cause(run_engines(file, "slices_of_ranks_times_own_rows", "tp1cp1dp2"),
               "grad_weight: ", each_slice + "2 x that of the rows of its own dp rank alone: ");
}

TEST_F(Replicas, SlicesHaveToBeDeclared) {
  expect_cause(run_engines("replica_engines.py", "slices_as_replicas", "tp1cp2dp2"), kOtherGradient,
               "slices of a reduce-scatter, which gradients=");
}

TEST_F(Replicas, ArmedTorchEnginesPass) {
  expect_all(run_engines("torch_engines.py", "ddp,fsdp", kReplicaGrids + ",tp2cp1dp2"), "passed");
}

TEST_F(Replicas, UnarmedTorchEnginesAreRejected) {
  const char* file = "torch_engines.py";
  expect_cause(run_engines(file, "ddp_not_armed,ddp_never_syncs", "tp1cp1dp2,tp1cp2dp2"),
               kOtherGradient, "not reduced over ");
  expect_cause(run_engines(file, "fsdp_without_cp", "tp1cp2dp2"), kOtherGradient,
               "not reduced over these ranks, each holds that of its own rows");
  for (const auto& [name, reason] : std::vector<std::pair<std::string, std::string>>{
           {"fsdp_as_replicated", "gradients=\"fsdp\" would declare it"},
           {"fsdp_never_wraps", "fully_shard has not wrapped the model"},
           {"fsdp_never_syncs", "without a gradient sync FSDP keeps it to itself"}}) {
    for (const ordered_json& trial : run_engines(file, name, "tp1cp1dp2")) {
      EXPECT_EQ(trial["status"], "error");
      EXPECT_THAT(trial["reason"].get<std::string>(), HasSubstr(reason));
    }
  }
}

TEST_F(Replicas, AreWhatTheMutantsOfAnEngineBreak) {
  const std::string broken =
      "right/gradient_not_reduced,right/gradient_on_first_rank,right/loss_on_first_rank,"
      "right/gradient_reduced_twice";
  expect_all(run_engines("replica_engines.py", broken, "tp1cp2dp2"), "failed");
}

/// Returns an interpreter with PyTorch and Megatron-core: LOSSGRID_MEGATRON_PYTHON, or the
/// interpreter of all tests; "" without one.
std::string python_with_megatron() {
  const char* given = std::getenv("LOSSGRID_MEGATRON_PYTHON");
  const std::string python = given != nullptr ? given : kFreshPython;
  const std::string find =
      "import importlib.util as i, sys; sys.exit(i.find_spec('megatron') is None)";
  const std::string command = fmt::format("'{}' -c \"{}\" 2>/dev/null", python, find);
  return std::system(command.c_str()) == 0 ? python : "";
}

TEST_F(Replicas, MegatronEnginesPassIfArmed) {
  const std::string python = python_with_megatron();
  if (python.empty()) GTEST_SKIP() << "there is no megatron-core (LOSSGRID_MEGATRON_PYTHON)";
  const char* file = "megatron_engines.py";
  expect_all(run_engines(file, "megatron_ddp,megatron_distributed_optimizer",
                         "tp1cp1dp2,tp1cp2dp2,tp2cp1dp2", python),
             "passed");
  expect_cause(run_engines(file, "megatron_ddp_never_syncs", "tp1cp2dp2", python), kOtherGradient,
               "not reduced over ");
  expect_all(
      run_engines(file, "megatron_distributed_optimizer_never_syncs,megatron_slices_as_replicas",
                  "tp1cp1dp2", python),
      "failed");
}

}  // namespace
}  // namespace lossgrid
