// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/watch.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>

#include <CLI/CLI.hpp>
#include <sys/stat.h>

#include "harness/cli/command.h"
#include "harness/cli/text/output.h"
#include "harness/cli/warm_launchers.h"
#include "harness/comm/launcher.h"
#include "harness/core/process/child_process.h"
#include "harness/core/process/interrupts.h"
#include "harness/core/text.h"
#include "harness/external/external_implementation.h"
#include "harness/external/python_launcher.h"

namespace lossgrid {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds kLook{50};
constexpr const char* kWatchFlag = "--watch";

/// State of each file: time, size and inode; empty where it is not there.
using FileStates = std::map<std::string, std::string>;

FileStates states_of(const std::vector<std::string>& files) {
  FileStates states;
  for (const std::string& file : files) {
    struct stat found {};
    states[file] = ::stat(file.c_str(), &found) == 0
                       ? fmt::format("{}.{} {} {}", found.st_mtim.tv_sec, found.st_mtim.tv_nsec,
                                     found.st_size, found.st_ino)
                       : std::string();
  }
  return states;
}

bool is_one_missing(const FileStates& states) {
  return std::any_of(states.begin(), states.end(),
                     [](const auto& one) { return one.second.empty(); });
}

/// Returns the names of the files, without their folders.
std::string names_of(const std::vector<std::string>& files) {
  std::vector<std::string> names;
  for (const std::string& file : files) names.push_back(fs::path(file).filename().string());
  return join(names, ", ");
}

/// Waits until files change, and are there and the same for a moment: editors write a file in
/// steps. Returns those that changed, none after an interrupt.
std::vector<std::string> wait_for_change(const FileStates& before) {
  std::vector<std::string> files;
  for (const auto& [file, state] : before) files.push_back(file);
  FileStates last = before;
  while (noted_interrupt() == 0) {
    std::this_thread::sleep_for(kLook);
    FileStates now = states_of(files);
    const bool is_settled = now == std::exchange(last, now) && !is_one_missing(now);
    if (!is_settled || now == before) continue;
    std::erase_if(files, [&](const std::string& file) { return now[file] == before.at(file); });
    return files;
  }
  return {};
}

class Watch {
 public:
  explicit Watch(const SuiteFlags& flags) : files_(absolute(requested_files(flags.load))) {
    hand_on_collectives(flags.load);
    command_.push_back(fs::read_symlink("/proc/self/exe").string());
    for (const std::string& argument : command_line()) {
      if (argument != kWatchFlag) command_.push_back(argument);
    }
    const bool has_python = !std::all_of(files_.begin(), files_.end(), is_plugin);
    if (has_python) warm_.emplace(python_program(requested_python(flags.load)));
  }

  ExitCode run() {
    if (warm_) warm_->wait_until_warm();
    for (;;) {
      FileStates before = states_of(files_);
      const ExitCode code = run_once();
      if (noted_interrupt() != 0 || code == ExitCode::usage) return code;
      add_sources();
      before.merge(states_of(files_));  // of files that are new, as they are now
      print("watching {}: Ctrl-C ends\n", names_of(files_));
      flush_output();
      const std::vector<std::string> changed = wait_for_change(before);
      if (noted_interrupt() != 0) {
        return noted_interrupt() == SIGINT ? code : exit_code_of_interrupt(noted_interrupt());
      }
      print("\nchanged: {}\n", names_of(changed));
      flush_output();
    }
  }

 private:
  static std::vector<std::string> absolute(std::vector<std::string> files) {
    for (std::string& file : files) file = fs::absolute(file).lexically_normal().string();
    return files;
  }

  ExitCode run_once() {
    std::vector<std::string> variables;
    Descriptor launcher;
    if (warm_) {
      launcher = warm_->launch();
      variables.push_back(fmt::format("{}={}", kInheritedLauncher, launcher.get()));
    }
    ChildProcess child(command_, variables, ChildOutput::inherited);
    launcher = Descriptor();
    int handed_on = 0;
    for (;;) {
      if (const std::optional<ProcessEnd> end = child.wait_for(kLook)) {
        if (end->signal == 0) return static_cast<ExitCode>(end->exit_code);
        print_message("the run ended with " + end->text());
        return ExitCode::rank_crashed;
      }
      // The run has a process group of its own, which the terminal does not interrupt.
      if (const int signal = noted_interrupt(); signal != std::exchange(handed_on, signal)) {
        child.signal_group(signal);
      }
    }
  }

  void add_sources() {
    if (!warm_) return;
    for (const std::string& file : warm_->sources()) {
      if (std::find(files_.begin(), files_.end(), file) == files_.end()) files_.push_back(file);
    }
  }

  const NotedInterrupts interrupts_;
  std::vector<std::string> files_;
  std::vector<std::string> command_;
  std::optional<WarmLaunchers> warm_;  // nullopt without a file of Python
};

}  // namespace

void add_watch_flag(CLI::App& command, bool& is_on) {
  command.add_flag(kWatchFlag, is_on,
                   "run again when a file of --load changes, or a module that it imports from its "
                   "folder; PyTorch is imported once; Ctrl-C ends, with the exit code of the last "
                   "run");
}

void require_watchable(const SuiteFlags& flags) {
  const auto refuse = [](const std::string& reason) { throw Error(ErrorCode::usage, reason); };
  if (under_launcher())
    refuse("--watch does not go with a launcher: ranks are threads of its runs");
  if (requested_files(flags.load).empty()) {
    refuse("--watch needs --load: it runs again when a loaded file changes");
  }
  if (flags.report == "-") {
    refuse("--watch needs a file for --report, which each run writes anew, not -");
  }
  if (!flags.resume.empty()) refuse("--watch does not go with --resume: every run starts anew");
}

ExitCode watch(const SuiteFlags& flags) {
  require_loadable(requested_files(flags.load));
  return Watch(flags).run();
}

}  // namespace lossgrid
