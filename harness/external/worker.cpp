// SPDX-License-Identifier: Apache-2.0
#include "harness/external/worker.h"

#include <algorithm>
#include <csignal>
#include <regex>
#include <thread>
#include <vector>

#include <unistd.h>

#include "harness/comm/call_signature.h"
#include "harness/core/error.h"

namespace lossgrid {
namespace {

constexpr CallSignature kMeeting{.collective = Collective::barrier};
constexpr std::int64_t kMostPrinted = 4096;  // bytes of what the user's code prints

/// One frame of a stack as Python's fault handler prints it: File "/a/b.py", line 3 in f
struct Frame {
  std::string path;
  std::string line;
  std::string function;

  std::string text() const {
    return fmt::format("{}:{} in {}", path.substr(path.rfind('/') + 1), line, function);
  }
};

/// Those of the thread that took the signal, which runs the user's function; others stand before
/// it.
std::vector<Frame> frames_of(const std::string& stacks) {
  const std::size_t main_thread = stacks.find("Current thread ");
  const std::string stack = stacks.substr(main_thread == std::string::npos ? 0 : main_thread);
  static const std::regex pattern(R"re(File "([^"\n]*)", line (\d+) in ([^\n]*))re");
  std::vector<Frame> frames;
  for (std::sregex_iterator at(stack.begin(), stack.end(), pattern), end; at != end; ++at) {
    frames.push_back({(*at)[1], (*at)[2], (*at)[3]});
  }
  return frames;
}

/// "at my_loss.py:20 in mine", "in all_reduce, called at my_loss.py:13 in forward": where the
/// newest frames of a stack are.
std::string place_in(const std::string& stack) {
  const std::vector<Frame> frames = frames_of(stack);
  if (frames.empty()) return "at a place that is not known";
  const auto is_users = [](const Frame& frame) {
    return frame.path.find("/site-packages/") == std::string::npos &&
           frame.path.find("/dist-packages/") == std::string::npos;
  };
  const auto user = std::find_if(frames.begin(), frames.end(), is_users);
  if (user == frames.end()) return "in " + frames.front().function;
  if (user->path.ends_with("/lossgrid/messages.py")) return "while it waited for other ranks";
  if (user == frames.begin()) return "at " + user->text();
  return fmt::format("in {}, called at {}", frames.front().function, user->text());
}

}  // namespace

Worker::Worker(std::shared_ptr<PythonLauncher> launcher, int rank, int size)
    : launcher_(std::move(launcher)), output_(make_memory_file("lossgrid output")) {
  auto [own, other] = make_socket_pair();
  pid_ = launcher_->fork_worker(rank, size, other.get(), output_.get());
  channel_ = MessageChannel(std::move(own));
}

Worker::~Worker() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  try {
    launcher_->wait_for(pid_);
  } catch (const Error&) {
    // The launcher is gone, and its workers with it.
  }
}

nlohmann::json Worker::ask(Communicator& ranks, const nlohmann::json& request,
                           const std::string& doing, std::initializer_list<int> descriptors) {
  bool is_sent = false;
  std::optional<nlohmann::json> answer;
  // Sent when all ranks are here: a worker ahead of the others would meet them in the wrong call.
  const auto advance = [&] {
    constexpr std::chrono::milliseconds kPatience{2};
    if (!std::exchange(is_sent, true)) channel_.send(request, descriptors);
    answer = channel_.receive(kPatience);
    return answer || channel_.is_closed();
  };
  try {
    ranks.carry(kMeeting, advance);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::timeout) throw;
    std::string lines = stack();
    throw Error(error.code(), fmt::format("{}: the deadline has passed {}", doing, place_in(lines)))
        .with_detail(std::move(lines));
  }
  if (!answer) throw_died(doing);
  if (!answer->value("ok", false)) throw_failed(*answer, doing);
  if (ftruncate(output_.get(), 0) != 0) throw Error(ErrorCode::io, "a memory file cannot be cut");
  return std::move(*answer);
}

void Worker::throw_died(const std::string& doing) {
  const ProcessEnd end = launcher_->wait_for(std::exchange(pid_, -1));
  throw Error(ErrorCode::process_died,
              fmt::format("{}: its process ended with {}", doing, end.text()))
      .with_detail(printed());
}

void Worker::throw_failed(const nlohmann::json& answer, const std::string& doing) {
  const bool no_memory = answer.value("kind", "") == "out_of_memory";
  throw Error(no_memory ? ErrorCode::not_enough_memory : ErrorCode::rank_failed,
              fmt::format("{}: {}", doing, answer.value("error", "no reason given")))
      .with_detail(answer.value("traceback", "") + printed());
}

std::string Worker::printed() const {
  const off_t size = lseek(output_.get(), 0, SEEK_END);
  if (size <= 0) return "";
  std::string text(static_cast<std::size_t>(std::min<off_t>(size, kMostPrinted)), '\0');
  const ssize_t count =
      pread(output_.get(), text.data(), text.size(), size - static_cast<off_t>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, count)));
  return "printed:\n" + text;
}

std::string Worker::stack() {
  if (pid_ <= 0 || kill(pid_, SIGUSR1) != 0) return printed();
  constexpr std::chrono::milliseconds kTimeToWrite{100};
  std::this_thread::sleep_for(kTimeToWrite);
  return printed();
}

Worker& WorkerPool::worker_of(int rank, int size) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Worker>& worker = workers_[{size, rank}];
  if (worker == nullptr) worker = std::make_unique<Worker>(launcher_, rank, size);
  return *worker;
}

void WorkerPool::discard(int rank, int size) {
  const std::lock_guard lock(mutex_);
  workers_.erase({size, rank});
}

Worker& WorkerPool::join(Communicator& ranks) {
  const int rank = ranks.rank();
  const int size = ranks.size();
  // The newest rendezvous that any rank has joined, and the oldest: equal where all know each
  // other.
  std::int64_t newest = worker_of(rank, size).rendezvous;
  std::int64_t bounds[2] = {newest, -newest};
  ranks.all_reduce(std::span<std::int64_t>(bounds), ReduceOp::max);
  newest = bounds[0];
  if (newest > 0 && newest == -bounds[1]) return worker_of(rank, size);
  if (worker_of(rank, size).rendezvous > 0) discard(rank, size);
  Worker& worker = worker_of(rank, size);
  std::int64_t port = 0;
  const std::string doing = "workers that join each other";
  const nlohmann::json listen = worker.ask(ranks, {{"op", rank == 0 ? "listen" : "ping"}}, doing);
  if (rank == 0) port = listen.at("port").get<std::int64_t>();
  ranks.broadcast(std::span<std::int64_t>(&port, 1), 0);
  worker.ask(ranks, {{"op", "join"}, {"host", "127.0.0.1"}, {"port", port}, {"timeout_s", 1800}},
             doing);
  worker.rendezvous = newest + 1;
  return worker;
}

}  // namespace lossgrid
