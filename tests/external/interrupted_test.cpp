// SPDX-License-Identifier: Apache-2.0
// Runs with loaded implementations that are cut short: injected faults, a supervisor, and a run
// that continues from another run's report.
#include <gmock/gmock.h>

#include "background.h"
#include "python.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kWaits = R"(
import time


@lossgrid.implementation
def waits(logits, batch):
    """Waits on its last grid while the file beside it is there."""
    folder = os.path.dirname(__file__)
    if batch.tp.size == 2 and os.path.exists(os.path.join(folder, "wait")):
        open(os.path.join(folder, "here"), "w").close()
        time.sleep(600)
    return right(logits, batch)
)";

class ExternalInterrupted : public WithTorch {
 protected:
  /// Returns the parts of a record that are the same in every run.
  static ordered_json lasting_part(const std::string& report) {
    ordered_json lasting = ordered_json::array();
    for (const ordered_json& trial : records_of(report, "trials")) {
      ordered_json& part = lasting.emplace_back(ordered_json::object());
      for (const char* key : {"id", "status", "reason", "checks", "invariants", "determinism",
                              "fingerprints", "memory", "communication", "reproduce"}) {
        part[key] = trial.at(key);
      }
    }
    return lasting;
  }

  const std::string arguments_ =
      "--impl waits,fused --case 'lens=5+8 vocab=24' --grid tp1cp1,tp2cp1 ";
};

TEST_F(ExternalInterrupted, GoOnByThePrintedLine) {
  const std::string file = write_python("waits.py", kWaits);
  const std::string first = scratch_.file("first.json");
  write_all(scratch_.file("wait"), "");
  BackgroundProcess run(scratch_, "run",
                        fmt::format("'{}' run --load {} --python '{}' {} --report {}",
                                    LOSSGRID_EXECUTABLE, file, kPython, arguments_, first));
  ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(scratch_.file("here")); }));
  run.send(SIGINT);
  const ProcessResult ended = run.wait();
  ASSERT_EQ(ended.exit_code, 130) << ended.out << ended.err;
  const std::string mark = "continue: lossgrid ";
  const std::size_t begin = ended.out.find(mark);
  ASSERT_NE(begin, std::string::npos) << ended.out;
  std::filesystem::remove(scratch_.file("wait"));
  std::string line = ended.out.substr(begin + mark.size());
  line.erase(line.find('\n'));

  const ProcessResult resumed = run_lossgrid(scratch_, line);
  EXPECT_EQ(resumed.exit_code, 0) << resumed.out << resumed.err;
  const std::string whole = scratch_.file("whole.json");
  ASSERT_EQ(run_loaded("run", {file}, arguments_ + "--report " + whole).exit_code, 0);
  EXPECT_EQ(ordered_json::diff(lasting_part(first), lasting_part(whole)), ordered_json::array());
}

TEST_F(ExternalInterrupted, SupervisorGoesOnBehindALaunchThatDies) {
  const std::string file = write_python("waits.py", kWaits);
  const std::string report = scratch_.file("supervised.json");
  const std::string line = fmt::format(
      "LOSSGRID='{}' scripts/sweep --launcher none -- --load {} --python '{}' {} --report {} "
      "--inject rank=1,at=backward,kind=segv,trial=2",
      LOSSGRID_EXECUTABLE, file, kPython, arguments_, report);
  write_all(scratch_.file("sweep.sh"), line);
  const ProcessResult result = run_executable(scratch_, "/bin/sh", scratch_.file("sweep.sh"));
  EXPECT_EQ(result.exit_code, 14) << result.out << result.err;
  const ordered_json trials = records_of(report, "trials");
  ASSERT_EQ(trials.size(), 4u);
  EXPECT_EQ(trials[1]["status"], "crashed");
  EXPECT_EQ(trials[1]["first_failed_rank"], 1);
  for (const std::size_t k : {0, 2, 3}) EXPECT_EQ(trials[k]["status"], "passed") << trials[k];
}

TEST_F(ExternalInterrupted, FaultsAreThoseOfTheRankTheyStrike) {
  const std::string file = write_python("waits.py", kWaits);
  const auto inject = [&](const std::string& kind, int exit_code,
                          const std::string& deadline = "") {
    const std::string report = scratch_.file(kind + ".json");
    const ProcessResult result = run_loaded("run", {file},
                                            fmt::format("{} {} --report {} --inject "
                                                        "rank=1,at=backward,kind={},trial=2",
                                                        arguments_, deadline, report, kind));
    EXPECT_EQ(result.exit_code, exit_code) << result.out << result.err;
    return records_of(report, "trials")[1];
  };
  const ordered_json thrown = inject("throw", 14);
  EXPECT_EQ(thrown["status"], "error");
  EXPECT_THAT(thrown["reason"].get<std::string>(), StartsWith("rank 1 in backward: injected"));
  const ordered_json poisoned = inject("nan", 10);
  EXPECT_EQ(poisoned["status"], "failed");
  EXPECT_THAT(poisoned["reason"].get<std::string>(), AllOf(HasSubstr("nan"), HasSubstr("rank 1")));
  const ordered_json hung = inject("hang", 15, "--timeout 10");
  EXPECT_EQ(hung["status"], "timeout");
  EXPECT_EQ(hung["first_failed_rank"], 1);
}

}  // namespace
}  // namespace lossgrid
