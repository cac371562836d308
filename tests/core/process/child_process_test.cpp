// SPDX-License-Identifier: Apache-2.0
// Real processes: they end, and no descendant is left.
#include "harness/core/process/child_process.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <unistd.h>

#include "harness/core/error.h"

namespace lossgrid {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr milliseconds kLong{20000};

std::vector<std::string> shell(const std::string& script) {
  return {"sh", "-c", script};
}

TEST(ChildProcess, ReportsItsExitCodeOrSignal) {
  EXPECT_EQ(ChildProcess(shell("exit 3")).wait_for(kLong)->text(), "exit code 3");
  EXPECT_EQ(ChildProcess(shell("kill -9 $$")).wait_for(kLong)->text(), "signal 9 (SIGKILL)");
  EXPECT_EQ(ChildProcess(shell("exit 139")).wait_for(kLong)->text(), "exit code 139 (SIGSEGV)");
}

TEST(ChildProcess, IsNotWaitedForLongerThanTheLimit) {
  ChildProcess child(shell("sleep 60"));
  EXPECT_EQ(child.wait_for(milliseconds(1)), std::nullopt);
  EXPECT_EQ(child.stop(kLong).signal, SIGTERM);
}

TEST(ChildProcess, IsKilledWhenItDoesNotListen) {
  ChildProcess child(shell("trap '' TERM; while :; do sleep 1; done"));
  EXPECT_EQ(child.wait_for(milliseconds(100)), std::nullopt);
  EXPECT_EQ(child.stop(milliseconds(50)).signal, SIGKILL);
}

/// Waits for the end of a process that is not a child of this one.
bool is_gone(pid_t pid) {
  for (int k = 0; k < 2000; ++k) {
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    if (!std::getline(stat, text) || text.find(") Z ") != std::string::npos) return true;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return false;
}

TEST(ChildProcess, TakesItsOwnChildrenWithIt) {
  const std::string file =
      (std::filesystem::temp_directory_path() / ("child_" + std::to_string(getpid()))).string();
  {
    ChildProcess child(shell("sleep 60 & echo $! > " + file + "; exit 0"));
    EXPECT_EQ(child.wait_for(kLong)->exit_code, 0);
  }
  pid_t left = 0;
  std::ifstream(file) >> left;
  std::filesystem::remove(file);
  ASSERT_GT(left, 0);
  EXPECT_TRUE(is_gone(left));
}

TEST(ChildProcess, NamesWhatCannotBeStarted) {
  try {
    ChildProcess({"/no/such/launcher", "-np", "2"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_THAT(error.what(), HasSubstr("'/no/such/launcher': No such file"));
  }
}

}  // namespace
}  // namespace lossgrid
