// SPDX-License-Identifier: Apache-2.0
// Waits of OpenMP teams are short unless the environment sets them, and child processes get the
// given environment. Libraries of OpenMP print the environment that they have read.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "process.h"

namespace lossgrid {
namespace {

#ifdef __clang__  // libomp
constexpr const char* kShortWait = "KMP_BLOCKTIME='0";
constexpr const char* kGivenWait = "KMP_BLOCKTIME=7";
constexpr const char* kGivenWaitAsRead = "KMP_BLOCKTIME='7";
#else  // libgomp
constexpr const char* kShortWait = "GOMP_SPINCOUNT = '1000'";
constexpr const char* kGivenWait = "GOMP_SPINCOUNT=7";
constexpr const char* kGivenWaitAsRead = "GOMP_SPINCOUNT = '7'";
#endif

using ::testing::HasSubstr;
using ::testing::Not;

ProcessResult run_in_environment(const ScratchFolder& scratch, const std::string& variables,
                                 const std::string& arguments) {
  return run_executable(
      scratch, "/usr/bin/env",
      "-u GOMP_SPINCOUNT -u KMP_BLOCKTIME -u OMP_WAIT_POLICY OMP_DISPLAY_ENV=verbose " + variables +
          " " LOSSGRID_EXECUTABLE " " + arguments);
}

TEST(TeamWaits, AreShort) {
  const ScratchFolder scratch;
  const ProcessResult result = run_in_environment(scratch, "", "--version");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr(kShortWait));
}

TEST(TeamWaits, AreThoseOfTheEnvironmentWhereItStatesThem) {
  const ScratchFolder scratch;
  constexpr const char* kRun = "run --case 'lens=3 vocab=8' --impl fused";
  EXPECT_THAT(run_in_environment(scratch, kGivenWait, kRun).err, HasSubstr(kGivenWaitAsRead));
  EXPECT_THAT(run_in_environment(scratch, "OMP_WAIT_POLICY=active", kRun).err,
              Not(HasSubstr(kShortWait)));
}

TEST(TeamWaits, AreNotInheritedByChildProcesses) {
  const ScratchFolder scratch;
  const std::string seen = scratch.file("seen");
  const std::string launch = scratch.file("launch");
  write_all(launch, "#!/bin/sh\n{ env; echo parent $(cat /proc/$PPID/comm); } > '" + seen +
                        "'\nexec \"$@\"\n");
  const ProcessResult result = run_in_environment(
      scratch, "",
      fmt::format(
          "run --case 'lens=3 vocab=8' --impl fused --supervise --launch 'sh {}' --report {}",
          launch, scratch.file("report.json")));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(read_all(seen), HasSubstr("OMP_DISPLAY_ENV=verbose"));
  EXPECT_THAT(read_all(seen), Not(HasSubstr("GOMP_SPINCOUNT")));
  EXPECT_THAT(read_all(seen), Not(HasSubstr("KMP_BLOCKTIME")));
  EXPECT_THAT(read_all(seen), HasSubstr("parent lossgrid\n"));
  EXPECT_THAT(read_all(seen), Not(HasSubstr("LOSSGRID_SHORT_TEAM_WAITS")));
}

}  // namespace
}  // namespace lossgrid
