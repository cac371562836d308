// SPDX-License-Identifier: Apache-2.0
// run --watch: each edit of a loaded file or of a module beside it gives a verdict.
#include <gmock/gmock.h>

#include "background.h"
#include "python.h"

namespace lossgrid {
namespace {

using ::testing::HasSubstr;

/// Function whose log-probabilities are multiplied by the number in factor.py.
const std::string kMultiplied = R"(
from factor import FACTOR


@lossgrid.implementation
def scaled(logits, batch):
    import shift  # when it runs
    return right(logits, batch) * FACTOR + shift.SHIFT
)";

const std::string kNeverReturns = R"(
import time


@lossgrid.implementation
def waits(logits, batch):
    open(os.path.join(os.path.dirname(__file__), "here"), "w").close()
    time.sleep(600)
)";

class Watch : public WithTorch {
 protected:
  void start(const std::string& file, const std::string& name) {
    out_ = scratch_.file("watch.out");
    err_ = scratch_.file("watch.err");
    run_.emplace(scratch_, "watch",
                 fmt::format("'" LOSSGRID_EXECUTABLE "' run --watch --load '{}' --impl {} --python "
                             "'{}' --case 'lens=5+8 vocab=24' --grid tp2cp1 --quiet",
                             file, name, kPython));
  }

  /// Writes a file beside the loaded one, and waits for the end of the next run. `before` is the
  /// number of runs that have ended.
  void edit(const std::string& name, const std::string& text, std::size_t before) {
    write_all(scratch_.file(name), text);
    ASSERT_TRUE(wait_for_runs(before + 1)) << read_all(out_) << read_all(err_);
  }

  bool wait_for_runs(std::size_t ended) const {
    return wait_until([&] { return lines_with(out_, "Ctrl-C ends") == ended; });
  }

  std::optional<BackgroundProcess> run_;
  std::string out_;
  std::string err_;
};

TEST_F(Watch, GivesAVerdictOnEachEdit) {
  const std::string loaded = write_python("scaled.py", kMultiplied);
  write_all(scratch_.file("factor.py"), "FACTOR = 1\n");
  write_all(scratch_.file("shift.py"), "SHIFT = 0\n");
  start(loaded, "scaled");
  ASSERT_TRUE(wait_for_runs(1)) << read_all(out_) << read_all(err_);
  EXPECT_EQ(lines_with(out_, "1 passed"), 1u);
  EXPECT_THAT(read_all(out_), HasSubstr("watching scaled.py, factor.py, shift.py: Ctrl-C ends\n"));

  edit("factor.py", "FACTOR = 2\n", 1);
  EXPECT_EQ(lines_with(out_, "0 passed, 1 failed"), 1u);
  edit("factor.py", "FACTOR = 1\n", 2);
  EXPECT_EQ(lines_with(out_, "1 passed"), 2u);
  edit("shift.py", "SHIFT = 1\n", 3);
  EXPECT_EQ(lines_with(out_, "0 passed, 1 failed"), 2u);
  edit("shift.py", "SHIFT = 0\n", 4);
  EXPECT_EQ(lines_with(out_, "1 passed"), 3u);
  EXPECT_EQ(lines_with(out_, "changed: shift.py"), 2u);
  EXPECT_EQ(read_all(err_), "");
  run_->send(SIGINT);
  EXPECT_EQ(run_->wait().exit_code, 0);
}

TEST_F(Watch, WaitsForTheRepairOfABrokenFile) {
  const std::string loaded = write_python("scaled.py", kMultiplied);
  write_all(scratch_.file("factor.py"), "FACTOR = = 1\n");
  write_all(scratch_.file("shift.py"), "SHIFT = 0\n");
  start(loaded, "scaled");
  ASSERT_TRUE(wait_for_runs(1)) << read_all(out_) << read_all(err_);
  EXPECT_THAT(read_all(err_), HasSubstr("cannot be loaded: SyntaxError: invalid syntax "
                                        "(factor.py:1)\n"));
  edit("factor.py", "FACTOR = 2\n", 1);
  EXPECT_EQ(lines_with(out_, "0 passed, 1 failed"), 1u);
  run_->send(SIGINT);
  EXPECT_EQ(run_->wait().exit_code, 10);  // that of the last run
}

TEST_F(Watch, HandsAnInterruptOnToTheRun) {
  start(write_python("waits.py", kNeverReturns), "waits");
  ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(scratch_.file("here")); }))
      << read_all(out_) << read_all(err_);
  run_->send(SIGINT);
  const ProcessResult result = run_->wait();
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_THAT(result.out, HasSubstr("0 passed, 1 not run"));
}

TEST(WatchRefuses, FlagsThatAskForOneRun) {
  const ScratchFolder scratch;
  const std::string load = "--load python/examples/vocab_parallel.py";
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"", "--watch needs --load: it runs again when a loaded file changes"},
      {load + " --report -",
       "--watch needs a file for --report, which each run writes anew, not -"},
      {load + " --resume r.json", "--watch does not go with --resume: every run starts anew"},
      {load + " --supervise --report r.json", "--watch does not go with --supervise"},
      {load + " --list-trials", "--watch does not go with --list-trials, which runs nothing"}};
  for (const auto& [flags, line] : refused) {
    const ProcessResult result = run_lossgrid(scratch, "run --watch " + flags);
    EXPECT_EQ(result.exit_code, 64) << flags;
    EXPECT_EQ(result.err, "lossgrid: " + line + "\n");
  }
  const ProcessResult launched = run_executable(
      scratch, "env", "OMPI_COMM_WORLD_SIZE=2 '" LOSSGRID_EXECUTABLE "' run --watch " + load);
  EXPECT_EQ(launched.exit_code, 64);
  EXPECT_THAT(launched.err, HasSubstr("--watch does not go with a launcher"));
}

TEST(WatchRefuses, AFileThatIsNotThere) {
  const ScratchFolder scratch;
  const ProcessResult result = run_lossgrid(scratch, "run --watch --load nowhere.py");
  EXPECT_EQ(result.exit_code, 65);
  EXPECT_THAT(result.err, HasSubstr("--load nowhere.py: there is no such file\n"));
}

}  // namespace
}  // namespace lossgrid
