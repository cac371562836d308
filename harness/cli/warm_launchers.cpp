// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/warm_launchers.h"

#include <array>
#include <chrono>

#include <fcntl.h>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/external/shared_memory.h"

namespace lossgrid {
namespace {

constexpr std::chrono::minutes kImportTime{10};

/// Makes `descriptor` survive an exec and returns it.
Descriptor kept_open(Descriptor descriptor) {
  fcntl(descriptor.get(), F_SETFD, 0);
  return descriptor;
}

std::vector<std::string> with_socket(WorkerProgram program, const Descriptor& socket) {
  program.words.emplace_back("--warm");
  program.words.push_back(std::to_string(socket.get()));
  return program.words;
}

/// Starts `program` with a socket, whose other end `channel` gets.
ChildProcess started(const WorkerProgram& program, MessageChannel& channel) {
  auto [own, other] = make_socket_pair();
  const Descriptor inherited = kept_open(std::move(other));
  channel = MessageChannel(std::move(own));
  return ChildProcess(with_socket(program, inherited), program.environment);
}

}  // namespace

WarmLaunchers::WarmLaunchers(WorkerProgram program) : process_(started(program, channel_)) {}

nlohmann::json WarmLaunchers::ask(const nlohmann::json& request,
                                  std::initializer_list<int> descriptors) {
  channel_.send(request, descriptors);
  const auto answer = channel_.receive(kImportTime);
  if (!answer) {
    throw_bad_input("the process that imports PyTorch gave no answer to '{}'",
                    request.at("op").get<std::string>());
  }
  if (!answer->value("ok", false)) throw_bad_input("{}", answer->value("error", "no reason given"));
  return *answer;
}

void WarmLaunchers::wait_until_warm() {
  ask({{"op", "warm"}});
}

Descriptor WarmLaunchers::launch() {
  auto [own, other] = make_socket_pair();
  sources_ = make_memory_file("lossgrid sources");
  ask({{"op", "launch"}}, {other.get(), sources_.get()});
  return kept_open(std::move(own));
}

std::vector<std::string> WarmLaunchers::sources() const {
  std::string text;
  std::array<char, 4096> part;
  ssize_t count = 0;
  while ((count = pread(sources_.get(), part.data(), part.size(),
                        static_cast<off_t>(text.size()))) > 0) {
    text.append(part.data(), static_cast<std::size_t>(count));
  }
  std::vector<std::string> files;
  for (const std::string& line : split(text, '\n')) {
    if (!line.empty()) files.push_back(line);
  }
  return files;
}

}  // namespace lossgrid
