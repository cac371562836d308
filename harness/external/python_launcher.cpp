// SPDX-License-Identifier: Apache-2.0
#include "harness/external/python_launcher.h"

#include <cstdlib>
#include <filesystem>

#include <fcntl.h>

#include "harness/core/error.h"

namespace lossgrid {
namespace {

namespace fs = std::filesystem;

// Importing a framework takes up to half a minute on a busy machine.
constexpr std::chrono::minutes kLoadTime{10};

std::string python_path() {
  std::string path = python_package_folder();
  if (const char* own = std::getenv("PYTHONPATH"); own != nullptr && *own != 0) {
    path += ':';
    path += own;
  }
  return path;
}

/// Makes `descriptor` survive an exec and returns it.
int kept(const Descriptor& descriptor) {
  fcntl(descriptor.get(), F_SETFD, 0);
  return descriptor.get();
}

}  // namespace

std::string python_package_folder() {
  const auto has_package = [](const fs::path& folder) {
    std::error_code ignored;
    return fs::is_regular_file(folder / "lossgrid/worker.py", ignored);
  };
  std::error_code failed;
  const fs::path beside = fs::read_symlink("/proc/self/exe", failed).parent_path();
  const fs::path installed = beside.parent_path() / "share/lossgrid/python";
  if (has_package(installed)) return installed.string();
  for (fs::path folder = beside; !folder.empty(); folder = folder.parent_path()) {
    if (has_package(folder / "python")) return (folder / "python").string();
    if (folder == folder.parent_path()) break;
  }
  throw_bad_input(
      "no Python package of lossgrid: there is no ../share/lossgrid/python and no python/lossgrid "
      "beside or above the executable");
}

PythonLauncher::PythonLauncher(std::string python, std::chrono::milliseconds answer_time)
    : python_(std::move(python)), answer_time_(answer_time) {
  start();
}

void PythonLauncher::start() {
  auto [own, other] = make_socket_pair();
  process_ = std::make_unique<ChildProcess>(
      std::vector<std::string>{python_, "-m", "lossgrid.worker", std::to_string(kept(other))},
      std::vector<std::string>{"PYTHONPATH=" + python_path()});
  channel_ = std::make_unique<MessageChannel>(std::move(own));
  ++launch_;
}

nlohmann::json PythonLauncher::ask(const nlohmann::json& request,
                                   std::chrono::milliseconds patience,
                                   std::initializer_list<int> descriptors) {
  const std::lock_guard lock(mutex_);
  return ask_locked(request, patience, descriptors);
}

nlohmann::json PythonLauncher::ask_locked(const nlohmann::json& request,
                                          std::chrono::milliseconds patience,
                                          std::initializer_list<int> descriptors) {
  channel_->send(request, descriptors);
  if (auto answer = channel_->receive(patience)) return *answer;
  if (!channel_->is_closed()) {
    throw Error(ErrorCode::timeout, fmt::format("{} -m lossgrid.worker gave no answer to '{}' "
                                                "within {} s",
                                                python_, request.at("op").get<std::string>(),
                                                std::chrono::duration<double>(patience).count()));
  }
  const auto end = process_->wait_for(std::chrono::seconds(5));
  throw Error(ErrorCode::process_died, fmt::format("{} -m lossgrid.worker ended with {}", python_,
                                                   end ? end->text() : "its output closed"));
}

nlohmann::json PythonLauncher::load_locked() {
  const auto refuse = [](const std::string& reason) { throw Error(ErrorCode::bad_input, reason); };
  nlohmann::json answer;
  try {
    answer = ask_locked({{"op", "load"}, {"version", 1}, {"files", files_}}, kLoadTime);
  } catch (const Error& error) {
    refuse(error.what());
  }
  if (!answer.value("ok", false)) refuse(answer.value("error", "the files cannot be loaded"));
  return answer;
}

std::vector<ExternalDeclaration> PythonLauncher::load(const std::vector<std::string>& files) {
  const std::lock_guard lock(mutex_);
  files_ = files;
  const nlohmann::json answer = load_locked();
  std::vector<ExternalDeclaration> declarations;
  for (const nlohmann::json& entry : answer.at("implementations")) {
    declarations.push_back(declaration_from(entry));
  }
  return declarations;
}

nlohmann::json PythonLauncher::ask_function(const char* question, const std::string& implementation,
                                            const nlohmann::json& options,
                                            const nlohmann::json& problem) {
  const std::lock_guard lock(mutex_);
  nlohmann::json answer;
  try {
    answer = ask_locked({{"op", question},
                         {"implementation", implementation},
                         {"options", options},
                         {"problem", problem}},
                        answer_time_);
  } catch (const Error& error) {
    start();
    load_locked();
    const std::string what = fmt::format("{} of '{}'", question, implementation);
    if (error.code() != ErrorCode::timeout) {
      throw Error(error.code(), fmt::format("{}: {}", what, error.what()));
    }
    const std::chrono::duration<double> seconds = answer_time_;
    throw Error(error.code(), fmt::format("{} gave no answer within {} s", what, seconds.count()));
  }
  if (answer.value("ok", false)) return answer;
  throw Error(ErrorCode::rank_failed, fmt::format("{} of '{}': {}", question, implementation,
                                                  answer.value("error", "no reason given")))
      .with_detail(answer.value("traceback", ""));
}

std::optional<SkipReason> PythonLauncher::unsupported(const std::string& implementation,
                                                      const nlohmann::json& options,
                                                      const nlohmann::json& problem) {
  const std::string reason =
      ask_function("supports", implementation, options, problem).value("reason", "");
  return reason.empty() ? std::nullopt : std::optional(SkipReason{reason});
}

std::int64_t PythonLauncher::chunks(const std::string& implementation,
                                    const nlohmann::json& options, const nlohmann::json& problem) {
  return ask_function("chunks", implementation, options, problem).at("chunks").get<std::int64_t>();
}

DeclaredCost PythonLauncher::cost(const std::string& implementation, const nlohmann::json& options,
                                  const nlohmann::json& problem) {
  return declared_cost_from(ask_function("cost", implementation, options, problem));
}

pid_t PythonLauncher::fork_worker(int rank, int size, int socket, int output) {
  const nlohmann::json answer =
      ask({{"op", "fork"}, {"rank", rank}, {"size", size}}, kLoadTime, {socket, output});
  if (!answer.value("ok", false)) {
    throw Error(ErrorCode::rank_failed, answer.value("error", "no worker could be started"));
  }
  return answer.at("pid").get<pid_t>();
}

ProcessEnd PythonLauncher::wait_for(pid_t worker) {
  const nlohmann::json answer = ask({{"op", "wait"}, {"pid", worker}}, kLoadTime);
  return {answer.value("exit", -1), answer.value("signal", 0)};
}

}  // namespace lossgrid
