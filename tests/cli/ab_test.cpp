// SPDX-License-Identifier: Apache-2.0
// Tests of `lossgrid ab` as a process. Launches that decide a verdict come from a script in place
// of another build, so that no number depends on this machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "process.h"

namespace lossgrid {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr const char* kCase = " --case 'lens=5+8 vocab=24' --pairs 4 ";

class Ab : public testing::Test {
 protected:
  /// Writes an executable in place of another build.
  std::string binary(const std::string& script) const {
    const std::string path = scratch_.file("base");
    write_all(path, "#!/bin/bash\n" + script);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  /// Times once; all later launches repeat the result.
  std::string same_every_time() const {
    const std::string kept = scratch_.file("kept.json");
    return binary("report=${@: -1}\n[ -f " + kept +
                  " ] || { '" LOSSGRID_EXECUTABLE "' \"$@\" && cp \"$report\" " + kept +
                  " && echo \"$@\" >" + scratch_.file("arguments") + "; }\ncp " + kept +
                  " \"$report\"\n");
  }
  ProcessResult run(const std::string& arguments) const {
    return run_lossgrid(scratch_, "ab" + std::string(kCase) + arguments);
  }
  void expect_error(const ProcessResult& result, int exit_code, const std::string& message) const {
    EXPECT_EQ(result.exit_code, exit_code) << result.out << result.err;
    EXPECT_THAT(result.out + result.err, HasSubstr(message));
  }

  ScratchFolder scratch_;
};

TEST_F(Ab, ABuildAgainstItselfIsOkAndASlowerOneExit11) {
  const std::string base = same_every_time();
  const std::string report = scratch_.file("r.json");
  const ProcessResult result = run("--impl fused --grid tp2cp1 --cache cold --order-seed 7 --aa " +
                                   ("--base-binary " + base) + " --report " + report);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("lens=5+8 vocab=24 on tp2cp1, cache cold: forward OK after 12 "
                                    "launches; backward OK after 12 launches;"));
  EXPECT_THAT(result.out, HasSubstr("A/B: 3 OK\n"));
  EXPECT_THAT(read_all(scratch_.file("arguments")),
              HasSubstr("bench --case lens=5+8 vocab=24 --impl fused --grid tp2cp1 --cache cold "
                        "--order-seed 7 --min-samples 6 "));
  EXPECT_EQ(run_lossgrid(scratch_, "validate " + report).exit_code, 0);
  const json parsed = json::parse(read_all(report));
  EXPECT_EQ(parsed["run"]["command"], "ab");
  ASSERT_EQ(parsed["ab"].size(), 3u);
  const json& forward = parsed["ab"][0];
  EXPECT_EQ(forward["a"], "fused (base)");
  EXPECT_EQ(forward["b"], "fused (base)");
  EXPECT_EQ(forward["grid"], "tp2cp1");
  EXPECT_EQ(forward["ratio"], 1);
  EXPECT_EQ(forward["launches"], 12);
  EXPECT_EQ(forward["verdict"], "OK");
  EXPECT_EQ(forward["seed"], 7);

  // The other build is now far faster than the machine, so this build must be slower.
  json kept = json::parse(read_all(scratch_.file("kept.json")));
  for (json& row : kept["timings"][0]["rows"]) {
    row["ceiling_ratio"] = 1e9;
  }
  write_all(scratch_.file("kept.json"), kept.dump());
  const ProcessResult slower = run("--quiet --phase forward --impl fused --base-binary " + base);
  expect_error(slower, 11, "A/B: 1 REGRESSED\n");
  EXPECT_THAT(slower.out, HasSubstr("fused (head)"));
}

TEST_F(Ab, ALaunchThatFailsEndsItsComparison) {
  const auto with = [&](const std::string& script) {
    return run("--impl fused --aa --base-binary " + binary(script));
  };
  expect_error(with("kill -9 $$"), 14, "signal 9 (SIGKILL) and left no report");
  expect_error(with("exit 3"), 14, "exit code 3 and left no report");
  expect_error(with("exit 64"), 65, "exit code 64");
  expect_error(run("--impl fused --aa --base-binary " + scratch_.file("nowhere")), 65,
               "cannot start '" + scratch_.file("nowhere"));
  expect_error(run("--impl fused --impl mutant/gradient_times_2"), 10,
               "failed: lens=5+8 vocab=24 on tp1cp1, cache hot: mutant/gradient_times_2 forward: "
               "outputs of the last");
  expect_error(run("--impl fused --impl linear_ce"), 77, "skipped: ");
  expect_error(run("--impl fused --impl one_sweep --phase forward"), 77,
               "fused and one_sweep have no phase in common among forward");
}

TEST_F(Ab, FlagsThatMakeNoSenseGetOneLine) {
  struct Refused {
    const char* arguments;
    int exit_code;
    const char* message;
  };
  for (const Refused& refused :
       {Refused{"", 64, "ab needs two different implementations: --impl A --impl B"},
        Refused{"--impl fused", 64, "two different"}, Refused{"--impl fused,fused", 64, "two"},
        Refused{"--impl fused --impl cp_local --impl per_sequence", 64, "two different"},
        Refused{"--aa", 64, "ab with --aa or --base-binary needs --impl"},
        Refused{"--base-binary x", 64, "needs --impl"},
        Refused{"--impl fused,cp_local --phase both", 64, "--phase 'both'"},
        Refused{"--impl fused,fusd", 65, "did you mean 'fused'?"},
        Refused{"--impl fused,cp_local --pairs 1", 64, "--pairs"},
        Refused{"--impl fused,probe/slowed", 65, "probe/slowed needs percent=P"},
        Refused{"--impl fused,probe/slowed:percent=-1", 65, "percent"},
        Refused{"--impl fused,cp_local --report /proc/nowhere/r.json", 65, "/proc/nowhere"}}) {
    const ProcessResult result = run(refused.arguments);
    EXPECT_EQ(result.exit_code, refused.exit_code) << refused.arguments << result.out;
    EXPECT_THAT(result.err, HasSubstr(refused.message)) << refused.arguments;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "");
  }
  const ProcessResult under_mpirun =
      run_executable(scratch_, "/usr/bin/env",
                     "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 '" LOSSGRID_EXECUTABLE "' ab" +
                         std::string(kCase) + "--impl fused,cp_local");
  EXPECT_EQ(under_mpirun.exit_code, 64);
  EXPECT_EQ(under_mpirun.err,
            "lossgrid: ab starts its launches itself, ranks are threads: run it without mpirun or "
            "srun\n");
}

TEST_F(Ab, TheSlowedProbeIsRight) {
  const ProcessResult result =
      run_lossgrid(scratch_,
                   "run --case 'lens=5+8 vocab=24' --impl probe/slowed:percent=50 --grid "
                   "tp1cp1,tp2cp2");
  EXPECT_EQ(result.exit_code, 0) << result.out;
  EXPECT_THAT(result.out, HasSubstr("2 passed"));
  EXPECT_THAT(run_lossgrid(scratch_, "list mutants").out, HasSubstr("probe/slowed "));
}

}  // namespace
}  // namespace lossgrid
