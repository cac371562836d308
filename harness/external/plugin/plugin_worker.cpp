// SPDX-License-Identifier: Apache-2.0
#include "harness/external/plugin/plugin_worker.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <thread>

#include <execinfo.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/core/error.h"
#include "harness/device/backend.h"
#include "harness/external/plugin/plugin_plan.h"
#include "harness/external/plugin/plugin_questions.h"
#include "harness/external/plugin/remote_group.h"

namespace lossgrid {
namespace {

using Json = nlohmann::json;
using Descriptors = std::vector<Descriptor>;
using Operations = std::map<std::string, std::function<Json(const Json&, Descriptors)>>;

Json failure_of(const Error& error) {
  const char* kind = error.code() == ErrorCode::not_enough_memory ? "out_of_memory"
                     : error.code() == ErrorCode::bad_input       ? "bad_input"
                                                                  : "error";
  return {{"ok", false}, {"kind", kind}, {"error", error.what()}, {"traceback", ""}};
}

/// Answers requests until the stream ends.
void serve(MessageChannel& channel, const Operations& operations) {
  while (!channel.is_closed()) {
    const std::optional<Json> request = channel.receive(std::chrono::hours(1));
    if (!request) continue;
    Json answer;
    try {
      const std::string op = request->value("op", "");
      const auto operation = operations.find(op);
      if (operation == operations.end()) {
        throw Error(ErrorCode::rank_failed, fmt::format("no operation '{}'", op));
      }
      answer = operation->second(*request, channel.take_descriptors());
    } catch (const Error& error) {
      answer = failure_of(error);
    } catch (const Json::exception& error) {
      answer = failure_of(Error(ErrorCode::rank_failed, error.what()));
    }
    channel.send(answer);
  }
}

/// The arena of the host, mapped.
class Arena {
 public:
  explicit Arena(const Descriptor& file) {
    struct stat now {};
    if (fstat(file.get(), &now) == 0) bytes_ = static_cast<std::size_t>(now.st_size);
    void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (mapped == MAP_FAILED) throw Error(ErrorCode::not_enough_memory, "no arena can be mapped");
    memory_ = static_cast<std::byte*>(mapped);
  }
  ~Arena() { munmap(memory_, bytes_); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  std::byte* memory() const { return memory_; }

 private:
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

/// A plan with what it refers to.
class WorkerPlan {
 public:
  WorkerPlan(const PluginLibrary& library, const Json& begin, Descriptors descriptors, int rank,
             MessageChannel& channel, Device& device)
      : arena_(descriptors.at(0)), payloads_(std::move(descriptors.at(1))) {
    const Json& problem = begin.at("problem");
    const Json& grid = problem.at("grid");
    const int tp = grid.at("tp");
    const int cp = grid.at("cp");
    const int dp = grid.at("dp");
    const auto group = [&](const char* name, int own, int size) {
      return std::make_unique<RemoteGroup>(channel, payloads_, device, name, own, size);
    };
    tp_ = group("tp", rank % tp, tp);
    cp_ = group("cp", rank / tp % cp, cp);
    dp_ = group("dp", rank / (tp * cp), dp);
    world_ = group("world", rank, tp * cp * dp);
    plan_ =
        std::make_unique<PluginPlan>(library.find(begin.at("implementation")), begin.at("options"),
                                     problem, PluginArena{arena_.memory(), begin.at("arrays")},
                                     device, PluginRanks{*tp_, *cp_, *dp_, *world_});
  }

  PluginPlan& plan() { return *plan_; }

 private:
  const Arena arena_;
  PayloadFile payloads_;
  std::unique_ptr<RemoteGroup> tp_;
  std::unique_ptr<RemoteGroup> cp_;
  std::unique_ptr<RemoteGroup> dp_;
  std::unique_ptr<RemoteGroup> world_;
  std::unique_ptr<PluginPlan> plan_;
};

/// One rank, for the life of its process.
class PluginRank {
 public:
  PluginRank(const PluginLibrary& library, MessageChannel& channel, int rank)
      : library_(library), channel_(channel), rank_(rank) {}

  void run() {
    const auto nothing = [](const Json&, const Descriptors&) { return Json{{"ok", true}}; };
    serve(channel_,
          {{"ping", nothing},
           {"join", nothing},
           {"listen",
            [](const Json&, const Descriptors&) {
              return Json{{"ok", true}, {"port", 1}};
            }},
           {"begin",
            [this](const Json& request, Descriptors descriptors) {
              return begin(request, std::move(descriptors));
            }},
           {"forward",
            [this](const Json& request, const Descriptors&) {
              return with_guards(plan_of(request).forward(request));
            }},
           {"backward",
            [this](const Json& request, const Descriptors&) {
              return with_guards(plan_of(request).backward(request));
            }},
           {"end", [this](const Json& request, const Descriptors&) { return end(request); }}});
  }

 private:
  Json begin(const Json& request, Descriptors descriptors) {
    for (const Json& plan : request.at("forget")) plans_.erase(plan.get<std::int64_t>());
    if (device_ != nullptr) device_->take_broken_guards();  // of those plans
    if (descriptors.size() != 2) {
      throw Error(ErrorCode::rank_failed, "begin came without an arena and a file of payloads");
    }
    const Backend backend =
        request.at("problem").at("device") == "cuda" ? Backend::cuda : Backend::cpu;
    if (device_ == nullptr) device_ = make_device(backend, rank_);
    plans_[request.at("plan").get<std::int64_t>()] = std::make_unique<WorkerPlan>(
        library_, request, std::move(descriptors), rank_, channel_, *device_);
    return {{"ok", true}};
  }

  PluginPlan& plan_of(const Json& request) {
    const auto found = plans_.find(request.at("plan").get<std::int64_t>());
    if (found == plans_.end()) throw Error(ErrorCode::rank_failed, "there is no such plan");
    return found->second->plan();
  }

  Json with_guards(Json answer) {
    for (const std::string& name : device_->take_broken_guards()) answer["beyond"].push_back(name);
    return answer;
  }

  Json end(const Json& request) {
    const std::string left = plan_of(request).end();
    plans_.erase(request.at("plan").get<std::int64_t>());
    device_->take_broken_guards();  // they have been reported
    return {{"ok", true}, {"left", left}};
  }

  const PluginLibrary& library_;
  MessageChannel& channel_;
  const int rank_;
  std::unique_ptr<Device> device_;
  std::map<std::int64_t, std::unique_ptr<WorkerPlan>> plans_;
};

/// Writes the stack of the thread that took the signal to what the process prints.
void print_stack(int /*signal*/) {
  std::array<void*, 64> frames;
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  backtrace_symbols_fd(frames.data(), count, STDERR_FILENO);
}

[[noreturn]] void run_worker(const PluginLibrary& library, Descriptors descriptors, int rank,
                             pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it ended before the call
  dup2(descriptors.at(1).get(), STDOUT_FILENO);
  dup2(descriptors.at(1).get(), STDERR_FILENO);
  setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  std::array<void*, 1> frame;
  backtrace(frame.data(), 1);  // loads what it needs: not in a handler
  std::signal(SIGUSR1, print_stack);
  MessageChannel channel(std::move(descriptors.at(0)));
  try {
    PluginRank(library, channel, rank).run();
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

/// The launcher.
class PluginLauncher {
 public:
  explicit PluginLauncher(int descriptor) : channel_(Descriptor(descriptor)) {}

  void run() {
    serve(channel_,
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
      { const MessageChannel launchers = std::move(channel_); }  // the host's end sees its close
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
  std::signal(SIGINT, SIG_IGN);  // a terminal sends it to all, and the host decides what ends
  PluginLauncher(descriptor).run();
  return 0;
}

}  // namespace lossgrid
