// SPDX-License-Identifier: Apache-2.0
// Files that can and cannot be loaded: exit code 65 and one line that names the file.
#include <algorithm>

#include <gmock/gmock.h>

#include "python.h"

namespace lossgrid {
namespace {

using ::testing::HasSubstr;

class ExternalLoading : public WithTorch {
 protected:
  /// Expects one line with `part` in it, and exit code 65.
  void expect_refused(const std::vector<std::string>& files, const std::string& part,
                      const std::string& python = kPython) const {
    const ProcessResult result = run_loaded("list implementations", files, "", python);
    EXPECT_EQ(result.exit_code, 65) << result.out << result.err;
    EXPECT_THAT(result.err, HasSubstr(part));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "");
  }

  std::string write(const std::string& name, const std::string& text) const {
    write_all(scratch_.file(name), text);
    return scratch_.file(name);
  }
};

TEST_F(ExternalLoading, RefusesFilesThatAreWrong) {
  expect_refused({write("syntax.py", "import lossgrid\ndef f(:\n")}, "(syntax.py:2)");
  expect_refused({write("raises.py", "import lossgrid\n\n1 / 0\n")},
                 "ZeroDivisionError: division by zero (raises.py:3)");
  expect_refused({write("nothing.py", "import lossgrid\n")},
                 "has no function with @lossgrid.implementation or @lossgrid.engine");
}

TEST_F(ExternalLoading, RefusesNamesThatAreTaken) {
  const std::string declare = "@lossgrid.implementation\ndef {}(logits, batch):\n    pass\n";
  const std::string mine = fmt::format(fmt::runtime(declare), "mine");
  const std::string first = write("first.py", "import lossgrid\n" + mine);
  const std::string second = write("second.py", "import lossgrid\n\n" + mine);
  expect_refused({write("twice.py", "import lossgrid\n" + mine + mine)},
                 "two implementations are called 'mine'");
  expect_refused({first, second}, "two implementations are called 'mine'");
  expect_refused(
      {write("clash.py", "import lossgrid\n" + fmt::format(fmt::runtime(declare), "fused"))},
      "clash.py: there is an implementation 'fused' already");
}

TEST_F(ExternalLoading, RefusesWhatIsNoFileOfImplementations) {
  expect_refused({scratch_.file("missing.py")}, "missing.py: there is no such file");
  expect_refused({write("mine.txt", "")},
                 "mine.txt: neither a Python file (.py) nor a shared library (.so)");
}

TEST_F(ExternalLoading, RefusesInterpretersThatCannotRunIt) {
  const std::string mine = write_python("mine.py", "");
  const std::string bare = write("bare", "#!/bin/sh\nexec '" + kFreshPython + "' -S -s \"$@\"\n");
  std::filesystem::permissions(bare, std::filesystem::perms::owner_all);
  expect_refused({mine}, "has no torch", bare);
  expect_refused({mine}, "/bin/false -m lossgrid.worker ended with exit code 1", "/bin/false");
  expect_refused({mine}, "cannot start '/nowhere/python': No such file", "/nowhere/python");
}

TEST_F(ExternalLoading, TakesFilesFromTheEnvironment) {
  const std::string example = kExamples + "vocab_parallel.py";
  ASSERT_EQ(setenv("LOSSGRID_LOAD", example.c_str(), 1), 0);
  const ProcessResult result = run_loaded("list implementations", {kExamples + "cp_gather.py"}, "");
  unsetenv("LOSSGRID_LOAD");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("vocab_parallel     external, " + example +
                                    ": Three all-reduces of one number a row over TP."));
  EXPECT_THAT(result.out, HasSubstr("\ncp_gather          external, "));
  EXPECT_THAT(result.out, HasSubstr("\nfused "));
}

}  // namespace
}  // namespace lossgrid
