// SPDX-License-Identifier: Apache-2.0
#include "harness/external/worker_launcher.h"

#include <cstdlib>

#include <fcntl.h>

#include "harness/core/error.h"
#include "harness/core/text.h"

namespace lossgrid {
namespace {

// Importing a framework takes up to half a minute on a busy machine.
constexpr std::chrono::minutes kLoadTime{10};

/// Makes `descriptor` survive an exec and returns it.
int kept(const Descriptor& descriptor) {
  fcntl(descriptor.get(), F_SETFD, 0);
  return descriptor.get();
}

/// Returns the socket of kInheritedLauncher, once.
Descriptor inherited_launcher() {
  const char* text = std::getenv(kInheritedLauncher);
  if (text == nullptr) return Descriptor();
  Descriptor socket(std::atoi(text));
  ::unsetenv(kInheritedLauncher);
  fcntl(socket.get(), F_SETFD, FD_CLOEXEC);
  return socket;
}

}  // namespace

std::string WorkerProgram::text() const {
  return join(words, " ");
}

WorkerLauncher::WorkerLauncher(WorkerProgram program, std::chrono::milliseconds answer_time)
    : program_(std::move(program)), answer_time_(answer_time) {
  start();
}

void WorkerLauncher::start() {
  ++launch_;
  process_.reset();
  if (!program_.host_makes_calls) {
    if (Descriptor socket = inherited_launcher(); socket.valid()) {
      channel_ = std::make_unique<MessageChannel>(std::move(socket));
      return;
    }
  }
  auto [own, other] = make_socket_pair();
  std::vector<std::string> words = program_.words;
  words.push_back(std::to_string(kept(other)));
  process_ = std::make_unique<ChildProcess>(words, program_.environment);
  channel_ = std::make_unique<MessageChannel>(std::move(own));
}

nlohmann::json WorkerLauncher::ask(const nlohmann::json& request,
                                   std::chrono::milliseconds patience,
                                   std::initializer_list<int> descriptors) {
  const std::lock_guard lock(mutex_);
  return ask_locked(request, patience, descriptors);
}

nlohmann::json WorkerLauncher::ask_locked(const nlohmann::json& request,
                                          std::chrono::milliseconds patience,
                                          std::initializer_list<int> descriptors) {
  channel_->send(request, descriptors);
  if (auto answer = channel_->receive(patience)) return *answer;
  if (!channel_->is_closed()) {
    throw Error(ErrorCode::timeout,
                fmt::format("{} gave no answer to '{}' within {} s", program_.text(),
                            request.at("op").get<std::string>(),
                            std::chrono::duration<double>(patience).count()));
  }
  const auto end = process_ ? process_->wait_for(std::chrono::seconds(5)) : std::nullopt;
  throw Error(ErrorCode::process_died, fmt::format("{} ended with {}", program_.text(),
                                                   end ? end->text() : "its output closed"));
}

nlohmann::json WorkerLauncher::load_locked() {
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

std::vector<ExternalDeclaration> WorkerLauncher::load(const std::vector<std::string>& files) {
  const std::lock_guard lock(mutex_);
  files_ = files;
  const nlohmann::json answer = load_locked();
  std::vector<ExternalDeclaration> declarations;
  for (const nlohmann::json& entry : answer.at("implementations")) {
    declarations.push_back(declaration_from(entry));
  }
  return declarations;
}

nlohmann::json WorkerLauncher::ask_function(const char* question, const std::string& implementation,
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

std::optional<SkipReason> WorkerLauncher::unsupported(const std::string& implementation,
                                                      const nlohmann::json& options,
                                                      const nlohmann::json& problem) {
  const std::string reason =
      ask_function("supports", implementation, options, problem).value("reason", "");
  return reason.empty() ? std::nullopt : std::optional(SkipReason{reason});
}

std::int64_t WorkerLauncher::chunks(const std::string& implementation,
                                    const nlohmann::json& options, const nlohmann::json& problem) {
  return ask_function("chunks", implementation, options, problem).at("chunks").get<std::int64_t>();
}

DeclaredCost WorkerLauncher::cost(const std::string& implementation, const nlohmann::json& options,
                                  const nlohmann::json& problem) {
  return declared_cost_from(ask_function("cost", implementation, options, problem));
}

pid_t WorkerLauncher::fork_worker(int rank, int size, int socket, int output) {
  const nlohmann::json answer =
      ask({{"op", "fork"}, {"rank", rank}, {"size", size}}, kLoadTime, {socket, output});
  if (!answer.value("ok", false)) {
    throw Error(ErrorCode::rank_failed, answer.value("error", "no worker could be started"));
  }
  return answer.at("pid").get<pid_t>();
}

ProcessEnd WorkerLauncher::wait_for(pid_t worker) {
  const nlohmann::json answer = ask({{"op", "wait"}, {"pid", worker}}, kLoadTime);
  return {answer.value("exit", -1), answer.value("signal", 0)};
}

}  // namespace lossgrid
