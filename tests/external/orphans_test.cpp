// SPDX-License-Identifier: Apache-2.0
// No worker outlives the program that started it, however the program ends.
#include <set>

#include <gmock/gmock.h>

#include "background.h"
#include "python.h"

namespace lossgrid {
namespace {

/// Returns the processes whose environment has `text`.
std::set<pid_t> processes_with(const std::string& text) {
  std::set<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (read_all(entry.path() / "environ").find(text) != std::string::npos) {
      found.insert(std::stoi(name));
    }
  }
  return found;
}

const std::string kSleeps = R"(
import threading
import time


@lossgrid.implementation
def sleeps(logits, batch):
    if batch.tp.rank == 1:
        threading.Thread(target=time.sleep, args=(600,)).start()  # not a daemon
        open(os.path.join(os.path.dirname(__file__), "asleep"), "w").close()
        time.sleep(600)
    return right(logits, batch)
)";

using ExternalOrphans = WithTorch;

TEST_F(ExternalOrphans, NoWorkerOutlivesAKilledRun) {
  const std::string marker = "LOSSGRID_TEST_MARKER=" + scratch_.path();
  BackgroundProcess run(
      scratch_, "run",
      fmt::format(
          "env {} '{}' run --load '{}' --python '{}' --impl sleeps --case 'lens=5+8 vocab=24' "
          "--grid tp2cp1",
          marker, LOSSGRID_EXECUTABLE, write_python("sleeps.py", kSleeps), kFreshPython));
  ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(scratch_.file("asleep")); }));
  ASSERT_EQ(processes_with(marker).size(), 4u);  // the program, the launcher and two workers
  run.send(SIGKILL);
  run.wait();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  EXPECT_THAT(processes_with(marker), ::testing::IsEmpty());
}

}  // namespace
}  // namespace lossgrid
