// SPDX-License-Identifier: Apache-2.0
// An installed executable finds the suites and the Python package that were installed with it.
#include <cstdlib>
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

/// Installs into the folder usr of `scratch`.
void install_into(const ScratchFolder& scratch) {
  const std::string build = fs::path(LOSSGRID_EXECUTABLE).parent_path();
  const ProcessResult install = run_executable(
      scratch, LOSSGRID_CMAKE, "--install '" + build + "' --prefix '" + scratch.file("usr") + "'");
  ASSERT_EQ(install.exit_code, 0) << install.err;
}

TEST(Installed, FindsItsSuitesWhateverStandsInTheWorkingDirectory) {
  const ScratchFolder scratch;
  install_into(scratch);
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
  EXPECT_THAT(none.err, testing::HasSubstr("no folder of suites: name one with --cases DIR"));
}

TEST(Installed, LoadsImplementationsWithItsPackage) {
  const std::string python = LOSSGRID_SOURCE_DIR "/build/venv/bin/python";
  if (std::system(("'" + python + "' -c 'import torch' 2>/dev/null").c_str()) != 0) {
    GTEST_SKIP() << python << " has no PyTorch, or is not there";
  }
  const ScratchFolder scratch;
  install_into(scratch);
  fs::create_directories(scratch.file("work"));
  fs::copy_file(LOSSGRID_SOURCE_DIR "/python/examples/vocab_parallel.py",
                scratch.file("work/my_loss.py"));
  const std::string run =
      "run --load my_loss.py --impl vocab_parallel --grid tp2cp1 --case "
      "'lens=5+8 vocab=24' --python '" +
      python + "'";
  const auto load = [&] {
    return run_in(scratch, scratch.file("work"), scratch.file("usr/bin/lossgrid"), run);
  };
  const ProcessResult found = load();
  EXPECT_EQ(found.exit_code, 0) << found.out << found.err;
  EXPECT_THAT(found.out, testing::HasSubstr("1 passed"));
  fs::remove_all(scratch.file("usr/share/lossgrid/python"));
  const ProcessResult none = load();
  EXPECT_EQ(none.exit_code, 65);
  EXPECT_THAT(none.err, testing::HasSubstr("no Python package of lossgrid"));
}

}  // namespace
}  // namespace lossgrid
