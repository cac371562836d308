// SPDX-License-Identifier: Apache-2.0
#include "harness/external/plugin/plugin_worker.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <thread>

#include <execinfo.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/core/error.h"
#include "harness/external/plugin/plugin_questions.h"
#include "harness/external/plugin/plugin_rank.h"
#include "harness/external/plugin/plugin_serving.h"

namespace lossgrid {
namespace {

using Json = nlohmann::json;
using Descriptors = std::vector<Descriptor>;

/// Writes the stack of the thread that took the signal to the output of the process.
void print_stack(int /*signal*/) {
  std::array<void*, 64> frames;
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  backtrace_symbols_fd(frames.data(), count, STDERR_FILENO);
}

[[noreturn]] void run_worker(const PluginLibrary& library, Descriptors descriptors, int rank,
                             pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the parent ended before the call
  dup2(descriptors.at(1).get(), STDOUT_FILENO);
  dup2(descriptors.at(1).get(), STDERR_FILENO);
  setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  std::array<void*, 1> frame;
  backtrace(frame.data(), 1);  // loads libraries that it needs, outside of a handler
  std::signal(SIGUSR1, print_stack);
  MessageChannel channel(std::move(descriptors.at(0)));
  try {
    serve_plugin_rank(library, channel, rank);
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "%s\n", exception.what());
    _exit(1);
  }
  _exit(0);
}

/// Waits up to a second for the end of a worker, then kills it.
Json wait_for_end(const Json& request, const Descriptors& /*descriptors*/) {
  const pid_t pid = request.at("pid");
  int status = 0;
  constexpr int kTries = 1000;
  for (int k = 0;; ++k) {
    const pid_t ended = waitpid(pid, &status, k < kTries ? WNOHANG : 0);
    if (ended == pid) break;
    if (ended < 0 && errno != EINTR) {
      throw Error(ErrorCode::rank_failed, fmt::format("there is no worker {}", pid));
    }
    if (k == kTries - 1) kill(pid, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  Json answer{{"ok", true}};
  if (WIFSIGNALED(status)) {
    answer["signal"] = WTERMSIG(status);
  } else {
    answer["exit"] = WEXITSTATUS(status);
  }
  return answer;
}

/// Launcher of workers, one process with the library open.
class PluginLauncher {
 public:
  explicit PluginLauncher(int descriptor) : channel_(Descriptor(descriptor)) {}

  void run() {
    serve_plugins(
        channel_,
        {{"load", [this](const Json& request, const Descriptors&) { return load(request); }},
         {"supports",
          [this](const Json& request, const Descriptors&) {
            return Json{{"ok", true},
                        {"reason", plugin_refusal(implementation(request), request.at("options"),
                                                  request.at("problem"))}};
          }},
         {"cost",
          [this](const Json& request, const Descriptors&) {
            return plugin_cost(implementation(request), request.at("options"),
                               request.at("problem"));
          }},
         {"fork",
          [this](const Json& request, Descriptors descriptors) {
            return fork_worker(request, std::move(descriptors));
          }},
         {"wait", wait_for_end}});
  }

 private:
  Json load(const Json& request) {
    library_.emplace(request.at("files").at(0).get<std::string>());
    Json declarations = Json::array();
    for (const PluginImplementation& one : library_->implementations()) {
      declarations.push_back(one.declaration);
    }
    return {{"ok", true}, {"version", 1}, {"implementations", declarations}};
  }

  const PluginImplementation& implementation(const Json& request) const {
    return library_->find(request.at("implementation"));
  }

  Json fork_worker(const Json& request, Descriptors descriptors) {
    if (descriptors.size() != 2) {
      throw Error(ErrorCode::rank_failed, "fork came without a socket and a file");
    }
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0) throw Error(ErrorCode::rank_failed, "no worker could be forked");
    if (pid == 0) {
      { const MessageChannel launchers = std::move(channel_); }  // else the host misses a close
      run_worker(*library_, std::move(descriptors), request.at("rank"), parent);
    }
    return {{"ok", true}, {"pid", pid}};
  }

  MessageChannel channel_;
  std::optional<PluginLibrary> library_;
};

}  // namespace

WorkerProgram plugin_worker_program() {
  std::error_code failed;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", failed).string();
  return {.words = {self, kPluginWorkerCommand}, .environment = {}, .host_makes_calls = true};
}

int run_plugin_launcher(int descriptor) {
  std::signal(SIGINT, SIG_IGN);  // a terminal sends it to all processes; the host decides
  PluginLauncher(descriptor).run();
  return 0;
}

}  // namespace lossgrid
