// SPDX-License-Identifier: Apache-2.0
// `Worker`: the worker process of one rank (python/PROTOCOL.md, Worker), and the pool of all
// workers of this process. A worker belongs to a world of a fixed number of ranks and lives until a
// failure: then it is killed, and the next trial gets a new worker. The thread of the rank uses its
// worker; any thread may use the pool.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "harness/comm/communicator.h"
#include "harness/external/external_runtime.h"
#include "harness/external/shared_memory.h"
#include "harness/external/worker_launcher.h"

namespace lossgrid {

/// Function that makes a collective for a worker and returns the answer.
using MakeCall = std::function<nlohmann::json(const nlohmann::json& call)>;

class Worker {
 public:
  Worker(std::shared_ptr<WorkerLauncher> launcher, int rank, int size);
  /// Kills the process.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Sends `request`, waits for the answer while the other ranks do the same, and returns the
  /// answer. `doing` is for messages: "forward of 'mine'". Throws rank_failed with the traceback as
  /// detail if the user's code raised, process_died if the process ended, not_enough_memory, and
  /// aborted or timeout if all ranks are ended. Each error has its cause, which may be another
  /// rank. `make_call` runs on this thread while the worker waits. Collective over `ranks`.
  nlohmann::json ask(Communicator& ranks, const nlohmann::json& request, const std::string& doing,
                     std::initializer_list<int> descriptors = {}, const MakeCall& make_call = {});

  /// Returns the number of a new plan, from 1.
  std::int64_t next_plan() { return ++plans_; }
  /// Ends a plan: the process may forget the plan when the next plan begins.
  void end_plan(std::int64_t plan) { ended_plans_.push_back(plan); }
  std::vector<std::int64_t> take_ended_plans() { return std::exchange(ended_plans_, {}); }

  /// True if the process ended with a launcher that had to be started again.
  bool is_lost() const;

  /// Number of the rendezvous that the worker has joined; 0 before the first.
  std::int64_t rendezvous = 0;

 private:
  /// Throws the failure of this process, if it failed, even if another rank failed first.
  void throw_own_failure(const std::string& doing);
  [[noreturn]] void throw_died(const std::string& doing);
  [[noreturn]] void throw_failed(const nlohmann::json& answer, const std::string& doing);
  /// Returns the last lines that the user's code printed, under a heading; empty without output.
  std::string printed() const;
  /// Returns the stack of the process, written by Python's fault handler.
  std::string stack();

  std::shared_ptr<WorkerLauncher> launcher_;
  int launch_ = 0;  // WorkerLauncher::launch
  Descriptor output_;
  MessageChannel channel_{Descriptor()};
  pid_t pid_ = -1;
  std::int64_t plans_ = 0;
  std::vector<std::int64_t> ended_plans_;
};

class WorkerPool final : public ExternalRuntime {
 public:
  explicit WorkerPool(std::shared_ptr<WorkerLauncher> launcher) : launcher_(std::move(launcher)) {}

  std::optional<SkipReason> unsupported(const std::string& implementation,
                                        const nlohmann::json& options,
                                        const nlohmann::json& problem) override;
  std::int64_t chunks(const std::string& implementation, const nlohmann::json& options,
                      const nlohmann::json& problem) override;
  DeclaredCost cost(const std::string& implementation, const nlohmann::json& options,
                    const nlohmann::json& problem) override;
  std::unique_ptr<ExternalSession> begin(const RankContext& context, PlanRequest request) override;

  bool host_makes_calls() const { return launcher_->program().host_makes_calls; }

  /// Returns the worker of this rank, joined with the workers of the other ranks of `ranks`.
  /// Collective. Throws the errors of Worker::ask.
  Worker& join(Communicator& ranks);

  /// Kills the worker of rank `rank` of `size`.
  void discard(int rank, int size);

 private:
  Worker& worker_of(int rank, int size);

  const std::shared_ptr<WorkerLauncher> launcher_;
  std::mutex mutex_;
  std::map<std::pair<int, int>, std::unique_ptr<Worker>> workers_;  // by size and rank
};

}  // namespace lossgrid
