// SPDX-License-Identifier: Apache-2.0
#include "harness/core/process/environment.h"

#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace lossgrid {
namespace {

std::string compiler_of_this_test() {
#if defined(__clang__)
  return fmt::format("Clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("g++ {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

TEST(Environment, NamesTheCompiler) {
  const auto environment = capture_environment();
  EXPECT_EQ(environment["tool"]["compiler"], compiler_of_this_test());
}

TEST(Environment, HasAFingerprintIfTheRevisionDoesNotIdentifyTheBuild) {
  const auto tool = capture_environment()["tool"];
  const auto revision = tool["git_revision"].get<std::string>();
  EXPECT_THAT(revision, testing::MatchesRegex("([0-9a-f]{7,40}(-dirty)?)?"));
  if (revision.empty() || revision.ends_with("-dirty")) {
    EXPECT_THAT(tool["executable_fingerprint"].get<std::string>(),
                testing::MatchesRegex("[0-9a-f]{16}"));
  } else {
    EXPECT_FALSE(tool.contains("executable_fingerprint"));
  }
}

}  // namespace
}  // namespace lossgrid
