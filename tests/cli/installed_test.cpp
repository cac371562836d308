// SPDX-License-Identifier: Apache-2.0
// An installed executable finds the suites that were installed with it.
#include <filesystem>

#include <gmock/gmock.h>

#include "process.h"

namespace lossgrid {
namespace {

namespace fs = std::filesystem;

ProcessResult run_in(const ScratchFolder& scratch, const std::string& folder,
                     const std::string& executable, const std::string& arguments) {
  return run_executable(scratch, "/usr/bin/env",
                        "-C '" + folder + "' '" + executable + "' " + arguments);
}

TEST(Installed, FindsItsSuitesWhateverStandsInTheWorkingDirectory) {
  const ScratchFolder scratch;
  const std::string build = fs::path(LOSSGRID_EXECUTABLE).parent_path();
  const ProcessResult install = run_executable(
      scratch, LOSSGRID_CMAKE, "--install '" + build + "' --prefix '" + scratch.file("usr") + "'");
  ASSERT_EQ(install.exit_code, 0) << install.err;
  fs::create_directories(scratch.file("work/cases"));
  write_all(scratch.file("work/cases/models.json"), "{}");
  write_all(scratch.file("work/cases/mine.json"), "no suite");
  for (const std::string& executable :
       {scratch.file("usr/bin/lossgrid"), std::string(LOSSGRID_EXECUTABLE)}) {
    const ProcessResult list = run_in(scratch, scratch.file("work"), executable, "list suites");
    EXPECT_EQ(list.exit_code, 0) << list.err;
    EXPECT_THAT(list.out, testing::HasSubstr("smoke "));
    EXPECT_THAT(list.out, testing::Not(testing::HasSubstr("mine")));
  }
  fs::remove_all(scratch.file("usr/share"));
  const ProcessResult none =
      run_in(scratch, scratch.file("work"), scratch.file("usr/bin/lossgrid"), "list suites");
  EXPECT_EQ(none.exit_code, 65);
  EXPECT_THAT(none.err, testing::HasSubstr("no folder of suites: set LOSSGRID_CASES_DIR"));
}

}  // namespace
}  // namespace lossgrid
