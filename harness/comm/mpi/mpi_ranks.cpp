// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/mpi/mpi_ranks.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "harness/comm/faults/flight_recorder.h"
#include "harness/comm/mpi/mpi_world.h"
#include "harness/core/error.h"

namespace lossgrid {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLongest = std::chrono::hours(24 * 365);  // far limits overflow the clock
constexpr milliseconds kShortestPatience{1000};

/// State shared by the rank's thread and the one that waits for it; a thread left behind keeps it
/// alive.
struct Run {
  std::function<void(Communicator&)> body;
  std::shared_ptr<MpiWorld> world;
  std::unique_ptr<FlightRecorder> recorder;
  std::mutex mutex;
  std::condition_variable progress;
  bool back = false;
  RankOutcome outcome;

  void finish(const RankOutcome& result) {
    const std::lock_guard lock(mutex);
    outcome = result;
    outcome.finished = true;
    back = true;
    progress.notify_all();
  }
};

/// Begins a run in all processes. Throws bad_input in all of them.
void require_same_ranks(MpiSession& session, int ranks) {
  MpiRuntime& runtime = *session.runtime();
  std::array<int, 2> bounds{ranks, -ranks};
  MPI_Request request = MPI_REQUEST_NULL;
  {
    const std::lock_guard lock(runtime.mutex);
    check_mpi(
        MPI_Iallreduce(MPI_IN_PLACE, bounds.data(), 2, MPI_INT, MPI_MAX, runtime.control, &request),
        "MPI_Iallreduce");
  }
  runtime.complete_idly(request);
  if (bounds[0] != -bounds[1]) {
    throw_bad_input("processes start runs of {} and of {} ranks", -bounds[1], bounds[0]);
  }
  if (ranks < 1 || ranks > session.size()) {
    throw_bad_input("a run under this launcher has 1 to {} ranks, not {}", session.size(), ranks);
  }
}

std::shared_ptr<MpiWorld> open_world(MpiSession& session, int ranks) {
  const std::lock_guard lock(session.runtime()->mutex);
  ++session.runtime()->runs;
  MPI_Comm comm = MPI_COMM_NULL;
  const int color = session.rank() < ranks ? 0 : MPI_UNDEFINED;
  check_mpi(MPI_Comm_split(session.runtime()->control, color, session.rank(), &comm),
            "MPI_Comm_split");
  return std::make_shared<MpiWorld>(session.runtime(), comm, ranks);
}

std::thread start_thread(const std::shared_ptr<Run>& run) {
  try {
    return std::thread([run] {
      run->finish(outcome_of(*run->recorder, [&] {
        const auto world = make_mpi_communicator(run->world);
        run->body(*record_calls(*world, *run->recorder));
      }));
    });
  } catch (const std::system_error& error) {
    const std::string message = fmt::format("cannot start its thread: {}", error.what());
    run->finish({.code = ErrorCode::not_enough_memory, .message = message});
    return {};
  }
}

/// Runs the body of this process and sends its outcome to the others.
void run_own_rank(const std::shared_ptr<Run>& run, int rank, const std::string& limit,
                  steady_clock::time_point end, milliseconds grace) {
  std::thread thread = start_thread(run);
  const auto back_until = [&](steady_clock::time_point moment) {
    std::unique_lock lock(run->mutex);
    return run->progress.wait_until(lock, moment, [&] { return run->back; });
  };
  bool busy = false;
  RankOutcome outcome;
  if (!back_until(end)) busy = run->world->expire(limit);
  if (back_until(end + grace)) {
    thread.join();
    outcome = run->outcome;
    if (busy)
      blame(outcome, ErrorCode::timeout, fmt::format("{} passed with rank {} busy", limit, rank));
  } else {
    thread.detach();
    outcome = {.code = ErrorCode::timeout,
               .message = fmt::format("rank {} hangs: not back {} ms after {}", rank, grace.count(),
                                      limit)};
  }
  outcome.busy = busy;
  outcome.trace = run->recorder->trace();
  run->world->close(outcome);
}

}  // namespace

RanksOutcome run_mpi_ranks(MpiSession& session, int ranks,
                           std::function<void(Communicator& world)> body, milliseconds deadline,
                           milliseconds grace) {
  require_same_ranks(session, ranks);
  const auto run = std::make_shared<Run>();
  run->body = std::move(body);
  run->world = open_world(session, ranks);

  const std::string limit = fmt::format("the deadline of {} ms", deadline.count());
  grace = std::min(grace, kLongest);
  const steady_clock::time_point end = steady_clock::now() + std::min(deadline, kLongest);
  if (session.rank() < ranks) {
    run->recorder =
        std::make_unique<FlightRecorder>(session.runtime()->runs, ranks, session.rank());
    run_own_rank(run, session.rank(), limit, end, grace);
  }

  // Rank 0 waits for answers of the others, and they wait twice as long for its decision.
  const milliseconds patience = std::max(grace, kShortestPatience);
  const milliseconds silence = grace + (session.rank() == 0 ? 1 : 2) * patience;
  Backoff backoff = Backoff::idle();
  while (!run->world->settle()) {
    if (steady_clock::now() > end + silence) {
      run->world->decide(fmt::format("no answer {} ms after {}", silence.count(), limit));
      break;
    }
    backoff.pause();
  }
  run->world->release();
  return run->world->verdict();
}

}  // namespace lossgrid
