// SPDX-License-Identifier: Apache-2.0
// scripts/sweep --dry-run: only prints, even on a node where nothing is installed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "process.h"

namespace lossgrid {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kSweptTrials =
    "--case 'lens=5+8 vocab=96' --impl fused --grid tp1cp1,tp2cp1 ";

/// Runs `line` in a shell, in the source folder.
ProcessResult shell(const ScratchFolder& scratch, const std::string& line) {
  const std::string script = scratch.file("script");
  write_all(script, line);
  return run_executable(scratch, "/bin/sh", script);
}

TEST(SweepDryRun, NeedsNoReport) {
  const ScratchFolder scratch;
  const ProcessResult result =
      shell(scratch, fmt::format("LOSSGRID='{}' scripts/sweep --dry-run --launcher none --per-grid "
                                 "-- {}",
                                 LOSSGRID_EXECUTABLE, kSweptTrials));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("--grid tp1cp1 --report REPORT.launch.json"));
  EXPECT_THAT(result.out, HasSubstr("--grid tp2cp1 --report REPORT.launch.json"));
  // Only a dry run works without the program.
  EXPECT_EQ(shell(scratch, fmt::format("LOSSGRID='{}' scripts/sweep --launcher none -- {}",
                                       LOSSGRID_EXECUTABLE, kSweptTrials))
                .exit_code,
            64);
}

/// Checkout whose setup and build leave a file behind.
class SweepOfANewNode : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string scripts = scratch_.file("scripts");
    std::filesystem::create_directory(scripts);
    std::filesystem::copy(LOSSGRID_SOURCE_DIR "/scripts/sweep", scripts + "/sweep");
    for (const std::string name : {"setup", "build"}) {
      const std::string path = scripts + "/" + name;
      write_all(path, fmt::format("#!/bin/sh\ntouch '{}'\n", scratch_.file(name + "_ran")));
      std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    }
  }
  bool ran(const std::string& name) const {
    return std::filesystem::exists(scratch_.file(name + "_ran"));
  }

  const ScratchFolder scratch_;
};

TEST_F(SweepOfANewNode, InstallsAndBuildsNothing) {
  const ProcessResult result =
      shell(scratch_, fmt::format("'{}/scripts/sweep' --dry-run --launcher none -- {}",
                                  scratch_.path(), kSweptTrials));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_FALSE(ran("setup"));
  EXPECT_FALSE(ran("build"));
  EXPECT_THAT(result.out, HasSubstr("scripts/setup mpi\n"));
  EXPECT_THAT(result.out, HasSubstr("scripts/build release lossgrid\n"));
  EXPECT_THAT(result.out, HasSubstr("run --supervise --launches all --dry-run"));
  EXPECT_THAT(result.err, HasSubstr("is not built"));

  // Without --dry-run the script runs setup and build; then the program that it starts is missing.
  EXPECT_NE(
      shell(scratch_, fmt::format("'{}/scripts/sweep' --launcher none", scratch_.path())).exit_code,
      0);
  EXPECT_TRUE(ran("setup"));
  EXPECT_TRUE(ran("build"));
}

TEST_F(SweepOfANewNode, PrintsTheLaunchesOfAnExecutableThatIsThere) {
  std::filesystem::create_directories(scratch_.file("build/release"));
  std::filesystem::create_symlink(LOSSGRID_EXECUTABLE, scratch_.file("build/release/lossgrid"));
  const ProcessResult result =
      shell(scratch_, fmt::format("'{}/scripts/sweep' --dry-run --launcher none -- {}",
                                  scratch_.path(), kSweptTrials));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_FALSE(ran("setup"));
  EXPECT_FALSE(ran("build"));
  EXPECT_THAT(result.out, HasSubstr("REPORT.launch.json"));
  EXPECT_THAT(result.out, Not(HasSubstr("scripts/setup")));
}

}  // namespace
}  // namespace lossgrid
