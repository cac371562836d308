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

/// What went wrong in the user's function `question` of `implementation`, in one line.
std::string why_failed(const nlohmann::json& answer, const char* question,
                       const std::string& implementation) {
  return fmt::format("{} of '{}': {}", question, implementation,
                     answer.value("error", "no reason given"));
}

/// Makes an exec keep `descriptor`.
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

PythonLauncher::PythonLauncher(std::string python)
    : PythonLauncher(std::move(python), make_socket_pair()) {}

PythonLauncher::PythonLauncher(std::string python, std::pair<Descriptor, Descriptor> sockets)
    : python_(std::move(python)),
      process_({python_, "-m", "lossgrid.worker", std::to_string(kept(sockets.second))},
               {"PYTHONPATH=" + python_path()}),
      channel_(std::move(sockets.first)) {}

nlohmann::json PythonLauncher::ask(const nlohmann::json& request,
                                   std::initializer_list<int> descriptors) {
  const std::lock_guard lock(mutex_);
  channel_.send(request, descriptors);
  if (auto answer = channel_.receive(kLoadTime)) return *answer;
  if (!channel_.is_closed()) {
    throw_bad_input("{} -m lossgrid.worker gave no answer to '{}' within {} minutes", python_,
                    request.at("op").get<std::string>(), kLoadTime.count());
  }
  const auto end = process_.wait_for(std::chrono::seconds(5));
  throw_bad_input("{} -m lossgrid.worker ended with {}", python_,
                  end ? end->text() : "its output closed");
}

std::vector<ExternalDeclaration> PythonLauncher::load(const std::vector<std::string>& files) {
  const nlohmann::json answer = ask({{"op", "load"}, {"version", 1}, {"files", files}});
  if (!answer.value("ok", false)) {
    throw Error(ErrorCode::bad_input, answer.value("error", "the files cannot be loaded"));
  }
  std::vector<ExternalDeclaration> declarations;
  for (const nlohmann::json& entry : answer.at("implementations")) {
    declarations.push_back(declaration_from(entry));
  }
  return declarations;
}

std::string PythonLauncher::why_unsupported(const std::string& implementation,
                                            const nlohmann::json& options,
                                            const nlohmann::json& problem) {
  const nlohmann::json answer = ask({{"op", "supports"},
                                     {"implementation", implementation},
                                     {"options", options},
                                     {"problem", problem}});
  if (!answer.value("ok", false)) {
    throw Error(ErrorCode::rank_failed, why_failed(answer, "supports", implementation));
  }
  return answer.value("reason", "");
}

std::int64_t PythonLauncher::chunks(const std::string& implementation,
                                    const nlohmann::json& options, const nlohmann::json& problem) {
  const nlohmann::json answer = ask({{"op", "chunks"},
                                     {"implementation", implementation},
                                     {"options", options},
                                     {"problem", problem}});
  if (!answer.value("ok", false)) {
    throw Error(ErrorCode::rank_failed, why_failed(answer, "chunks", implementation));
  }
  return answer.at("chunks").get<std::int64_t>();
}

DeclaredCost PythonLauncher::cost(const std::string& implementation, const nlohmann::json& options,
                                  const nlohmann::json& problem) {
  const nlohmann::json answer = ask({{"op", "cost"},
                                     {"implementation", implementation},
                                     {"options", options},
                                     {"problem", problem}});
  if (!answer.value("ok", false)) {
    throw Error(ErrorCode::rank_failed, why_failed(answer, "cost", implementation));
  }
  return declared_cost_from(answer);
}

pid_t PythonLauncher::fork_worker(int rank, int size, int socket, int output) {
  const nlohmann::json answer =
      ask({{"op", "fork"}, {"rank", rank}, {"size", size}}, {socket, output});
  if (!answer.value("ok", false)) {
    throw Error(ErrorCode::rank_failed, answer.value("error", "no worker could be started"));
  }
  return answer.at("pid").get<pid_t>();
}

ProcessEnd PythonLauncher::wait_for(pid_t worker) {
  const nlohmann::json answer = ask({{"op", "wait"}, {"pid", worker}});
  return {answer.value("exit", -1), answer.value("signal", 0)};
}

}  // namespace lossgrid
