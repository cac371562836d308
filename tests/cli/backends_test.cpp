// SPDX-License-Identifier: Apache-2.0
// Backends on the command line: available, skipped and refused backends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "full_report.h"
#include "harness/device/backend.h"
#include "process.h"

namespace lossgrid {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kSmallRun = "run --case 'lens=5+8 vocab=24' --impl fused --grid tp2cp2 ";

TEST(Backends, AreListedWithWhatIsThere) {
  const ScratchFolder scratch;
  const ProcessResult result = run_lossgrid(scratch, "list backends");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, StartsWith("cpu            this processor\ncuda           "));
  EXPECT_THAT(result.out, HasSubstr("\ncuda_emulated  this processor\n"));
  const std::string reason = text_of(no_device(Backend::cuda));
  if (!reason.empty()) {
    EXPECT_THAT(result.out, HasSubstr("not here: " + reason));
  }
}

TEST(Backends, EmulatedKernelsPassAndAreNamedInTheReport) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("report.json");
  const ProcessResult result =
      run_lossgrid(scratch, kSmallRun + ("--backend cuda_emulated --report " + report));
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  const json trial = full_report(report)["trials"][0];
  EXPECT_EQ(trial["backend"], "cuda_emulated");
  EXPECT_THAT(std::string(trial["id"]), HasSubstr("|fused|cuda_emulated"));
  // As from a driver: the tensors, without memory of other processes.
  EXPECT_GT(trial["memory"][2]["device_used_bytes"], 0);
  EXPECT_EQ(trial["memory"][2]["device_other_bytes"], 0);
  // Results of another backend are not taken over.
  const ProcessResult resumed = run_lossgrid(
      scratch, kSmallRun + ("--resume " + report + " --report " + scratch.file("cpu.json")));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  const json on_cpu = full_report(scratch.file("cpu.json"))["trials"][0];
  EXPECT_EQ(on_cpu["backend"], "cpu");
  EXPECT_FALSE(on_cpu["memory"][2].contains("device_used_bytes"));
}

TEST(Backends, MutantsAndBundlesRunOnThem) {
  const ScratchFolder scratch;
  const ProcessResult mutants = run_lossgrid(
      scratch,
      "mutants --suite smoke --impl mutant/gradient_times_cp --backend cuda_emulated --report " +
          scratch.file("m.json"));
  EXPECT_EQ(mutants.exit_code, 0) << mutants.out << mutants.err;
  EXPECT_THAT(std::string(json::parse(read_all(scratch.file("m.json")))["mutants"][0]["reproduce"]),
              HasSubstr("--backend cuda_emulated"));
  const ProcessResult replay =
      run_lossgrid(scratch, "replay tests/golden/nll_linear.safetensors --backend cuda_emulated");
  EXPECT_EQ(replay.exit_code, 0) << replay.out << replay.err;
}

TEST(Backends, WithoutAGpuTrialsAreSkippedAndRequiringOneIsRefused) {
  const std::string reason = text_of(no_device(Backend::cuda));
  if (reason.empty()) GTEST_SKIP() << "there is a GPU";
  const ScratchFolder scratch;
  const ProcessResult skipped = run_lossgrid(scratch, kSmallRun + std::string("--backend cuda"));
  EXPECT_EQ(skipped.exit_code, 77) << skipped.out;
  EXPECT_THAT(skipped.out, HasSubstr("no_device: " + reason));
  const ProcessResult bench = run_lossgrid(
      scratch, "bench --case 'lens=5+8 vocab=24' --impl fused --cache hot,cold --backend cuda");
  EXPECT_EQ(bench.exit_code, 77) << bench.out;
  EXPECT_THAT(bench.out, HasSubstr("skipped on tp1cp1, cache cold: no_device: " + reason));
  const ProcessResult refused =
      run_lossgrid(scratch, "run --suite smoke --backend cuda --require cuda");
  EXPECT_EQ(refused.exit_code, 65);
  EXPECT_EQ(refused.err, "lossgrid: --require cuda: " + reason + "\n");
  EXPECT_EQ(refused.out, "");
}

TEST(Backends, UnknownNamesAndUnmetRequirementsAreRefused) {
  const ScratchFolder scratch;
  const auto error_of = [&](const std::string& flags, int code) {
    const ProcessResult result = run_lossgrid(scratch, kSmallRun + flags);
    EXPECT_EQ(result.exit_code, code) << flags;
    return result.err;
  };
  EXPECT_THAT(error_of("--backend cuda_emulate", 65), HasSubstr("cuda_emulated"));
  EXPECT_THAT(error_of("--require rocm", 65), HasSubstr("rocm"));
  EXPECT_THAT(error_of("--require mpi --transport thread", 65),
              HasSubstr("--require mpi: ranks are threads"));
}

}  // namespace
}  // namespace lossgrid
