// SPDX-License-Identifier: Apache-2.0
// Where the ranks of trials and timings are: threads of this process, or processes of an MPI job;
// and whether what GPUs hold goes over NCCL between them.
// Every process of a job goes through the same trials in the same order; one of them, that of rank
// 0, gets what all ranks found and reports it. Whatever a process decides from what it alone can
// see (its memory, its clock) is agreed on here, so that no two of them differ in what they run.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/comm/consensus.h"
#include "harness/comm/mpi/mpi_ranks.h"
#include "harness/comm/thread/thread_communicator.h"
#include "harness/core/archive.h"
#include "harness/device/backend.h"

namespace lossgrid {

template <typename Result>
struct RanksRun {
  RanksOutcome outcome;
  std::vector<Result> results;  // by rank, where all are well and this process reports
};

class Ranks {
 public:
  /// Threads of this process.
  Ranks() = default;
  /// The processes of a job; `session` outlives the object.
  explicit Ranks(MpiSession& session) : session_(&session) {}

  /// The same ranks, each with a GPU of its own: their trials use NCCL.
  Ranks with_nccl() const;
  bool has_nccl() const { return has_nccl_; }
  /// Why `ranks` of these ranks cannot use NCCL on `backend`, as far as this process knows; empty
  /// when they can.
  std::string why_no_nccl(Backend backend, int ranks) const;
  /// Why `ranks` of these ranks cannot run on `backend`, in the words of a report ("no_device: ",
  /// "no_nccl: ") and as far as this process knows; empty when they can.
  std::string why_not_here(Backend backend, int ranks) const;

  /// What carries collectives: "thread", "mpi", "nccl".
  std::string_view transport() const { return has_nccl_ ? "nccl" : launcher(); }
  /// Where the ranks are: "thread", "mpi".
  std::string_view launcher() const { return session_ == nullptr ? "thread" : "mpi"; }
  /// The rank of this process in the job; 0 without one.
  int process() const { return session_ == nullptr ? 0 : session_->rank(); }
  bool reports() const { return process() == 0; }
  /// Facts about the job for a report; null without one.
  nlohmann::ordered_json environment() const;
  /// Ranks that a grid may have; 0: as many as are asked for.
  int limit() const { return session_ == nullptr ? 0 : session_->size(); }

  /// Calls `body` on `count` ranks; as run_thread_ranks and run_mpi_ranks. Collective over the
  /// processes of a job.
  template <typename Result>
  RanksRun<Result> run(int count, std::function<Result(Communicator& world)> body,
                       std::chrono::milliseconds deadline) const;

  /// The first text that is not empty, by process; the same on all. Collective over the processes.
  std::string first_text(const std::string& text) const;

 private:
  RanksOutcome run_bodies(int count, std::function<void(Communicator& world)> body,
                          std::chrono::milliseconds deadline) const;

  MpiSession* session_ = nullptr;
  bool has_nccl_ = false;
};

template <typename Result>
RanksRun<Result> Ranks::run(int count, std::function<Result(Communicator& world)> body,
                            std::chrono::milliseconds deadline) const {
  // A rank that hangs keeps it.
  const auto results = std::make_shared<std::vector<Result>>(static_cast<std::size_t>(count));
  const bool shared_memory = session_ == nullptr;
  RanksRun<Result> run;
  run.outcome = run_bodies(
      count,
      [results, body = std::move(body), shared_memory](Communicator& world) {
        Result own = body(world);
        if (shared_memory) {
          (*results)[static_cast<std::size_t>(world.rank())] = std::move(own);
          return;
        }
        const std::vector<std::string> all = gather_texts(world, to_bytes(std::move(own)));
        if (world.rank() != 0) return;
        for (std::size_t r = 0; r < all.size(); ++r) (*results)[r] = from_bytes<Result>(all[r]);
      },
      deadline);
  if (run.outcome.all_ok() && reports()) run.results = std::move(*results);
  return run;
}

}  // namespace lossgrid
