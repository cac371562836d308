// SPDX-License-Identifier: Apache-2.0
// Command lines that a run prints or records repeat it, unchanged, in the same folder.
#include <gmock/gmock.h>

#include "python.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

const std::string kOfTwo = R"(
@lossgrid.implementation
def mine(logits, batch, *, word="a"):
    """Wrong where its option has a blank; makes a collective that it does not need."""
    dist.all_reduce(torch.zeros(1), group=batch.tp.group)
    return right(logits, batch) * (1.5 if " " in word else 1)
)";

class Reproduction : public WithTorch {
 protected:
  void SetUp() override {
    WithTorch::SetUp();
    if (IsSkipped()) return;
    std::filesystem::create_directory(scratch_.file("my losses"));
    write_python("my losses/mine.py", kOfTwo);
    std::filesystem::create_symlink(LOSSGRID_EXECUTABLE, scratch_.file("lossgrid"));
  }

  /// Runs `line` in a shell with lossgrid in its PATH and no PyTorch in its python3.
  ProcessResult paste(const std::string& line) const {
    write_all(scratch_.file("line.sh"),
              fmt::format("cd '{0}'\nexport PATH='{0}':$PATH\n{1}\n", scratch_.path(), line));
    return run_executable(scratch_, "/bin/sh", scratch_.file("line.sh"));
  }

  const std::string case_ = "--case 'lens=5+8+1+3 vocab=24' --grid tp2cp1 ";
};

TEST_F(Reproduction, NamesFileInterpreterAndOptionsOfATrial) {
  const ProcessResult first =
      paste(fmt::format("lossgrid run --load 'my losses/mine.py' --python '{}' --impl 'mine:word=a "
                        "b' {} --report trial.json",
                        kPython, case_));
  ASSERT_EQ(first.exit_code, 10) << first.out << first.err;
  const ordered_json trial = records_of(scratch_.file("trial.json"), "trials")[0];
  EXPECT_THAT(first.out, HasSubstr("  reproduce: " + trial["reproduce"].get<std::string>() + '\n'));
  const ProcessResult again = paste(trial["reproduce"].get<std::string>() + " --report again.json");
  EXPECT_EQ(again.exit_code, 10) << again.out << again.err;
  const ordered_json repeated = records_of(scratch_.file("again.json"), "trials")[0];
  EXPECT_EQ(repeated["id"], trial["id"]);
  EXPECT_EQ(repeated["reason"], trial["reason"]);
}

TEST_F(Reproduction, NamesFilesFromTheEnvironment) {
  const ProcessResult first =
      paste(fmt::format("export LOSSGRID_LOAD='my losses/mine.py'\nlossgrid run --python '{}' "
                        "--impl 'mine:word=a b' {}",
                        kPython, case_));
  ASSERT_EQ(first.exit_code, 10) << first.out << first.err;
  const std::string mark = "  reproduce: ";
  const std::size_t begin = first.out.find(mark) + mark.size();
  const ProcessResult again = paste(first.out.substr(begin, first.out.find('\n', begin) - begin));
  EXPECT_EQ(again.exit_code, 10) << again.out << again.err;
}

TEST_F(Reproduction, RunsTheMutant) {
  write_all(scratch_.file("suite.json"),
            R"({"suite": 1, "name": "one", "summary": "one case", "grids": ["tp2cp1"],
                "implementations": ["fused"],
                "cases": [{"name": "a", "lens": "5+8+1+3", "vocab": 24, "scale": 3}]})");
  const std::string mutants = fmt::format(
      "lossgrid mutants --suite suite.json --load 'my losses/mine.py' --python '{}' ", kPython);
  const ProcessResult result =
      paste(mutants + "--impl mine/forward-1-skip,mine/forward-2-skip --report mutants.json");
  ASSERT_EQ(result.exit_code, 10) << result.out << result.err;
  const ordered_json records = records_of(scratch_.file("mutants.json"), "mutants");
  ASSERT_EQ(records.size(), 3u);                       // including the control
  EXPECT_FALSE(records[0]["rejected"]) << records[0];  // the mutant of the unneeded collective
  ASSERT_TRUE(records[1]["rejected"]) << records[1];
  const ProcessResult again = paste(records[1]["reproduce"]);
  EXPECT_EQ(again.exit_code, 10) << again.out << again.err;
  EXPECT_THAT(again.out, HasSubstr("|tp2cp1|mine/forward-2-skip|cpu"));

  const ProcessResult unknown =
      paste(fmt::format("lossgrid run --load 'my losses/mine.py' --python '{}' {} --impl "
                        "mine/forward-2-skipp",
                        kPython, case_));
  EXPECT_EQ(unknown.exit_code, 65);
  EXPECT_THAT(unknown.err, ContainsRegex("^lossgrid: unknown mutant 'forward-2-skipp'.*\n$"));
}

}  // namespace
}  // namespace lossgrid
