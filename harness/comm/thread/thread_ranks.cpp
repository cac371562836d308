// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "harness/comm/faults/flight_recorder.h"
#include "harness/comm/thread/thread_communicator.h"
#include "harness/comm/thread/thread_world.h"

namespace lossgrid {
namespace {

thread_local const ThreadWorld* world_of_thread = nullptr;

/// State shared by the threads of a run and the waiting caller; a thread that is left behind keeps
/// it alive.
struct Run {
  std::function<void(Communicator&)> body;
  std::shared_ptr<ThreadWorld> world;
  std::shared_ptr<ThreadGroup> group;
  std::vector<std::unique_ptr<FlightRecorder>> recorders;  // by rank
  std::mutex mutex;
  std::condition_variable progress;
  std::vector<RankOutcome> outcomes;
  std::size_t finished = 0;

  void finish(int rank, RankOutcome outcome) {
    // Lock order: the world's mutex is released before this one is taken.
    if (!outcome.ok) world->fail(rank, fmt::format("rank {} failed: {}", rank, outcome.message));
    world->leave(rank);
    outcome.finished = true;
    const std::lock_guard lock(mutex);
    outcomes[static_cast<std::size_t>(rank)] = std::move(outcome);
    if (++finished == outcomes.size()) progress.notify_all();
  }
};

RankOutcome run_body(Run& run, int rank) {
  FlightRecorder& recorder = *run.recorders[static_cast<std::size_t>(rank)];
  return outcome_of(recorder, [&] {
    const auto world = make_thread_communicator(run.group, rank, "world");
    run.body(*record_calls(*world, recorder));
  });
}

/// Waits until those of `ranks` are back that the deadline has woken in a collective. They have
/// next to nothing left to do, so they do not hang, but a machine with much other work may keep
/// them.
void wait_for_woken(Run& run, const std::vector<int>& ranks) {
  constexpr std::chrono::seconds kPatience{30};
  constexpr std::chrono::milliseconds kPause{10};
  const auto end = std::chrono::steady_clock::now() + kPatience;
  const auto are_back = [&] {
    return std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
      return run.outcomes[static_cast<std::size_t>(rank)].finished;
    });
  };
  std::unique_lock lock(run.mutex);
  while (!are_back() && std::chrono::steady_clock::now() < end) {
    run.progress.wait_for(lock, kPause);
  }
}

/// Makes the recorders of the `ranks` ranks of the next run of this process.
std::vector<std::unique_ptr<FlightRecorder>> open_recorders(int ranks) {
  static std::atomic<std::uint64_t> runs{0};
  const std::uint64_t run = ++runs;
  std::vector<std::unique_ptr<FlightRecorder>> recorders;
  for (int rank = 0; rank < ranks; ++rank) {
    recorders.push_back(std::make_unique<FlightRecorder>(run, ranks, rank));
  }
  return recorders;
}

std::vector<std::thread> start_threads(const std::shared_ptr<Run>& run, int ranks) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    try {
      threads.emplace_back([run, rank] {
        world_of_thread = run->world.get();
        run->finish(rank, run_body(*run, rank));
      });
    } catch (const std::system_error& error) {
      const std::string message = fmt::format("cannot start its thread: {}", error.what());
      run->finish(rank, {.code = ErrorCode::not_enough_memory, .message = message});
      threads.emplace_back();  // keeps the index equal to the rank
    }
  }
  return threads;
}

}  // namespace

ThreadRankState thread_rank_state(int rank) {
  return world_of_thread->state_of(rank);
}

RanksOutcome run_thread_ranks(int ranks, std::function<void(Communicator& world)> body,
                              std::chrono::milliseconds deadline, std::chrono::milliseconds grace) {
  if (ranks < 1) throw_bad_input("a run has at least one rank, not {}", ranks);
  const auto run = std::make_shared<Run>();
  run->body = std::move(body);
  run->world = std::make_shared<ThreadWorld>(ranks);
  run->group = ThreadGroup::make_world_group(run->world);
  run->recorders = open_recorders(ranks);
  run->outcomes.resize(static_cast<std::size_t>(ranks));

  std::vector<std::thread> threads = start_threads(run, ranks);
  const auto all_back_within = [&](std::chrono::milliseconds limit) {
    // Far limits would overflow the clock.
    constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);
    std::unique_lock lock(run->mutex);
    return run->progress.wait_for(lock, std::min(limit, kLongest),
                                  [&] { return run->finished == run->outcomes.size(); });
  };
  std::vector<int> busy;
  const std::string limit = fmt::format("the deadline of {} ms", deadline.count());
  if (!all_back_within(deadline)) {
    const std::vector<int> woken = run->world->in_calls();
    busy = run->world->expire(limit);
    if (!all_back_within(grace)) wait_for_woken(*run, woken);
  }

  RanksOutcome result;
  {
    const std::lock_guard lock(run->mutex);
    result.ranks = run->outcomes;
  }
  const std::optional<WorldFailure> failure = run->world->failure();
  for (const int rank : busy) {
    result.ranks[static_cast<std::size_t>(rank)].busy = true;
    blame(result.ranks[static_cast<std::size_t>(rank)], ErrorCode::timeout,
          fmt::format("{} passed with rank {} busy", limit, rank));
  }
  if (failure && failure->culprit >= 0) {
    blame(result.ranks[static_cast<std::size_t>(failure->culprit)], ErrorCode::rank_failed,
          failure->reason);
    result.first_failed_rank = cause_among(result.ranks, failure->culprit);
  }
  for (int rank = ranks; rank-- > 0;) {
    RankOutcome& outcome = result.ranks[static_cast<std::size_t>(rank)];
    std::thread& thread = threads[static_cast<std::size_t>(rank)];
    if (outcome.finished) {
      if (thread.joinable()) thread.join();
      continue;
    }
    thread.detach();
    outcome = {.code = ErrorCode::timeout,
               .message = fmt::format("rank {} hangs: not back {} ms after {}", rank, grace.count(),
                                      limit),
               .busy = outcome.busy};
    result.first_failed_rank = rank;
  }
  if (result.all_ok()) return result;
  for (std::size_t r = 0; r < result.ranks.size(); ++r) {
    result.ranks[r].trace = run->recorders[r]->trace();
  }
  return result;
}

}  // namespace lossgrid
