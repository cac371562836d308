// SPDX-License-Identifier: Apache-2.0
// Suites regress/: each of them passes, on all of its grids and implementations.
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "process.h"

namespace lossgrid {
namespace {

TEST(Regress, EverySuiteOfAFixedBugPasses) {
  const ScratchFolder scratch;
  int suites = 0;
  for (const auto& file :
       std::filesystem::directory_iterator(LOSSGRID_SOURCE_DIR "/cases/regress")) {
    const std::string name = file.path().stem();
    SCOPED_TRACE(name);
    const ProcessResult result = run_lossgrid(scratch, "run --quiet --suite regress/" + name);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    ++suites;
  }
  EXPECT_GE(suites, 10);
}

}  // namespace
}  // namespace lossgrid
