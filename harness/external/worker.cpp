// SPDX-License-Identifier: Apache-2.0
#include "harness/external/worker.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include <unistd.h>

#include "harness/comm/call_signature.h"
#include "harness/core/error.h"
#include "harness/external/stack_text.h"
#include "harness/external/worker_session.h"

namespace lossgrid {
namespace {

constexpr CallSignature kMeeting{.collective = Collective::barrier};
constexpr std::int64_t kMostPrinted = 4096;  // bytes of the output of the user's code

}  // namespace

Worker::Worker(std::shared_ptr<WorkerLauncher> launcher, int rank, int size)
    : launcher_(std::move(launcher)), output_(make_memory_file("lossgrid output")) {
  auto [own, other] = make_socket_pair();
  launch_ = launcher_->launch();
  pid_ = launcher_->fork_worker(rank, size, other.get(), output_.get());
  channel_ = MessageChannel(std::move(own));
}

bool Worker::is_lost() const {
  return launch_ != launcher_->launch();
}

Worker::~Worker() {
  if (pid_ <= 0 || is_lost()) return;
  kill(pid_, SIGKILL);
  try {
    launcher_->wait_for(pid_);
  } catch (const std::exception&) {
    // The launcher has ended, and its workers with it.
  }
}

nlohmann::json Worker::ask(Communicator& ranks, const nlohmann::json& request,
                           const std::string& doing, std::initializer_list<int> descriptors,
                           const MakeCall& make_call) {
  bool is_sent = false;
  bool in_call = false;
  std::optional<nlohmann::json> answer;
  // Sent when all ranks are here, because a worker ahead of the others would join them in the wrong
  // call.
  const auto advance = [&] {
    // Between looks for the failure of another rank.
    constexpr std::chrono::milliseconds kPatience{10};
    if (!std::exchange(is_sent, true)) channel_.send(request, descriptors);
    for (;;) {
      answer = channel_.receive(kPatience);
      if (!answer || !answer->contains("call") || !make_call) break;
      in_call = true;
      channel_.send(make_call(*answer));
      in_call = false;
    }
    return answer || channel_.is_closed();
  };
  try {
    ranks.transfer_external(kMeeting, advance);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::aborted && is_sent && !answer) throw_own_failure(doing);
    if (error.code() != ErrorCode::timeout) throw;
    if (in_call) {
      throw Error(error.code(), fmt::format("{}: the deadline has passed in {} over {}", doing,
                                            answer->at("call").get<std::string>(),
                                            answer->at("group").get<std::string>()))
          .with_cause(Cause::collective);
    }
    std::string lines = stack();
    const StackPlace place = place_in_stack(lines);
    throw Error(error.code(), fmt::format("{}: the deadline has passed {}", doing, place.text))
        .with_detail(std::move(lines))
        .with_cause(place.cause);
  }
  if (!answer) throw_died(doing);
  if (!answer->value("ok", false)) throw_failed(*answer, doing);
  if (ftruncate(output_.get(), 0) != 0) throw Error(ErrorCode::io, "a memory file cannot be cut");
  return std::move(*answer);
}

void Worker::throw_own_failure(const std::string& doing) {
  // A rank that dies or raises fails the collectives of other ranks, whose failure may be noticed
  // first.
  constexpr std::chrono::milliseconds kPatience{20};
  const auto answer = channel_.receive(kPatience);
  if (!answer && channel_.is_closed()) throw_died(doing);
  if (answer && !answer->value("ok", false)) throw_failed(*answer, doing);
}

void Worker::throw_died(const std::string& doing) {
  const ProcessEnd end = launcher_->wait_for(std::exchange(pid_, -1));
  const std::string lines = printed();
  throw Error(ErrorCode::process_died,
              fmt::format("{}: its process ended with {}", doing, end.text()))
      .with_detail(lines.empty() ? "printed nothing" : lines)
      .with_cause(Cause::own);
}

void Worker::throw_failed(const nlohmann::json& answer, const std::string& doing) {
  const bool no_memory = answer.value("kind", "") == "out_of_memory";
  const std::string traceback = answer.value("traceback", "");
  throw Error(no_memory ? ErrorCode::not_enough_memory : ErrorCode::rank_failed,
              fmt::format("{}: {}", doing, answer.value("error", "no reason given")))
      .with_detail(traceback + printed())
      .with_cause(cause_of_traceback(traceback));
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
  using std::chrono::milliseconds, std::chrono::steady_clock;
  const auto bytes = [this] { return lseek(output_.get(), 0, SEEK_END); };
  const off_t before = bytes();
  if (pid_ <= 0 || kill(pid_, SIGUSR1) != 0) return printed();
  // The process writes its stack when it gets to run, which takes longer on a busy machine. A rank
  // of MPI has a second to return after the deadline.
  constexpr milliseconds kLeast{100};
  constexpr milliseconds kMost{700};
  constexpr milliseconds kPause{20};
  const auto begin = steady_clock::now();
  off_t last = before;
  for (bool complete = false; !complete && steady_clock::now() < begin + kMost;) {
    std::this_thread::sleep_for(kPause);
    const off_t now = bytes();
    complete = steady_clock::now() > begin + kLeast && now > before && now == last;
    last = now;
  }
  return printed();
}

std::optional<SkipReason> WorkerPool::unsupported(const std::string& implementation,
                                                  const nlohmann::json& options,
                                                  const nlohmann::json& problem) {
  return launcher_->unsupported(implementation, options, problem);
}

std::int64_t WorkerPool::chunks(const std::string& implementation, const nlohmann::json& options,
                                const nlohmann::json& problem) {
  return launcher_->chunks(implementation, options, problem);
}

DeclaredCost WorkerPool::cost(const std::string& implementation, const nlohmann::json& options,
                              const nlohmann::json& problem) {
  return launcher_->cost(implementation, options, problem);
}

std::unique_ptr<ExternalSession> WorkerPool::begin(const RankContext& context,
                                                   PlanRequest request) {
  return std::make_unique<WorkerSession>(*this, context, std::move(request));
}

Worker& WorkerPool::worker_of(int rank, int size) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Worker>& worker = workers_[{size, rank}];
  if (worker == nullptr || worker->is_lost()) {
    worker = std::make_unique<Worker>(launcher_, rank, size);
  }
  return *worker;
}

void WorkerPool::discard(int rank, int size) {
  const std::lock_guard lock(mutex_);
  workers_.erase({size, rank});
}

Worker& WorkerPool::join(Communicator& ranks) {
  const int rank = ranks.rank();
  const int size = ranks.size();
  // Newest and oldest rendezvous that any rank has joined; equal if all ranks are joined.
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
