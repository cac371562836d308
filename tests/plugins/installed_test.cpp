// SPDX-License-Identifier: Apache-2.0
// A project of a user builds against the installed package, also after that was moved, and the
// installed program loads what it built.
#include <filesystem>

#include "plugins.h"

namespace lossgrid {
namespace {

namespace fs = std::filesystem;

class InstalledPackage : public ::testing::Test {
 protected:
  ProcessResult cmake(const std::string& arguments) {
    return run_executable(scratch_, LOSSGRID_CMAKE, arguments);
  }

  const ScratchFolder scratch_;
};

TEST_F(InstalledPackage, ServesAProjectOfItsOwn) {
  const std::string build = fs::path(LOSSGRID_EXECUTABLE).parent_path();
  const std::string first = scratch_.file("first");
  const std::string prefix = scratch_.file("moved");
  const ProcessResult install = cmake(fmt::format("--install '{}' --prefix '{}'", build, first));
  ASSERT_EQ(install.exit_code, 0) << install.err;
  fs::rename(first, prefix);

  fs::copy(LOSSGRID_SOURCE_DIR "/impls/plugins", scratch_.file("mine"),
           fs::copy_options::recursive);
  const std::string own = scratch_.file("build");
  const ProcessResult configured =
      cmake(fmt::format("-S '{}' -B '{}' -DCMAKE_PREFIX_PATH='{}' -DLOSSGRID_PLUGINS_CUDA=OFF "
                        "-DCMAKE_C_FLAGS=-Werror -DCMAKE_CXX_FLAGS=-Werror",
                        scratch_.file("mine"), own, prefix));
  ASSERT_EQ(configured.exit_code, 0) << configured.out << configured.err;
  const ProcessResult built =
      cmake(fmt::format("--build '{}' --target vocab_parallel hidden_nll", own));
  ASSERT_EQ(built.exit_code, 0) << built.out << built.err;

  const ProcessResult run = run_executable(
      scratch_, prefix + "/bin/lossgrid",
      fmt::format("run --load '{0}/libvocab_parallel.so' --load '{0}/libhidden_nll.so' --isolate "
                  "--impl c_vocab_parallel --case 'lens=5+8 vocab=25' --grid tp2cp2",
                  own));
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_THAT(run.out, ::testing::HasSubstr("1 passed"));
}

TEST_F(InstalledPackage, IsNamedWhereItIsMissing) {
  const ProcessResult configured =
      cmake(fmt::format("-S '{}/impls/plugins' -B '{}' -DCMAKE_PREFIX_PATH='{}' "
                        "-DLOSSGRID_PLUGINS_CUDA=OFF",
                        LOSSGRID_SOURCE_DIR, scratch_.file("build"), scratch_.file("nowhere")));
  EXPECT_NE(configured.exit_code, 0);
  EXPECT_THAT(configured.err, ::testing::HasSubstr("lossgridConfig.cmake"));
}

}  // namespace
}  // namespace lossgrid
