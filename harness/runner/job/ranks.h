// SPDX-License-Identifier: Apache-2.0
// `Ranks`: the ranks of trials and timings: threads of this process, or processes of an MPI job;
// with or without NCCL for device memory. Every process of a job goes through the same trials in
// the same order; one of them, that of rank 0, collects the findings of all ranks and reports them.
// Decisions that a process takes from facts of its own (its memory, its clock) are agreed on here,
// so that all processes run the same.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/comm/consensus.h"
#include "harness/comm/mpi/mpi_ranks.h"
#include "harness/comm/thread/thread_communicator.h"
#include "harness/core/archive.h"
#include "harness/core/skip_reason.h"
#include "harness/device/backend.h"

namespace lossgrid {

template <typename Result>
struct RanksRun {
  RanksOutcome outcome;
  std::vector<Result> results;  // by rank, where all returned and this process reports
};

class Ranks {
 public:
  /// Uses threads of this process.
  Ranks() = default;
  /// Uses the processes of a job; `session` outlives the object.
  explicit Ranks(MpiSession& session) : session_(&session) {}

  /// Returns the same ranks, each with a GPU of its own: their trials use NCCL.
  Ranks with_nccl() const;
  bool has_nccl() const { return has_nccl_; }
  /// Returns a reason when `ranks` of these ranks cannot use NCCL on `backend`, as far as this
  /// process knows.
  std::optional<SkipReason> nccl_unavailable(Backend backend, int ranks) const;
  /// Returns a reason when `ranks` of these ranks cannot run on `backend`, in the words of a report
  /// ("no_device: ", "no_nccl: ") and as far as this process knows.
  std::optional<SkipReason> unavailable(Backend backend, int ranks) const;

  /// Returns the carrier of collectives: "thread", "mpi", "nccl".
  std::string_view transport() const { return has_nccl_ ? "nccl" : launcher(); }
  /// Returns "thread" or "mpi".
  std::string_view launcher() const { return session_ == nullptr ? "thread" : "mpi"; }
  /// Returns the rank of this process in the job; 0 without one.
  int process() const { return session_ == nullptr ? 0 : session_->rank(); }
  bool reports() const { return process() == 0; }
  /// Returns facts about the job for a report; null without one.
  nlohmann::ordered_json environment() const;
  /// Returns the most ranks that a grid may have; 0: no limit.
  int limit() const { return session_ == nullptr ? 0 : session_->size(); }

  /// Calls `body` on `count` ranks, as run_thread_ranks and run_mpi_ranks do. Collective: all
  /// processes of a job must call it.
  template <typename Result>
  RanksRun<Result> run(int count, std::function<Result(Communicator& world)> body,
                       std::chrono::milliseconds deadline) const;

  /// Returns the first error that is not empty, by process, the same on all; empty when no process
  /// has one. Collective: all processes of a job must call it.
  std::string agree_on_first_error(const std::string& error) const { return first_of(error); }
  std::optional<SkipReason> agree_on_first_error(const std::optional<SkipReason>& reason) const;
  /// Returns true on all processes if `fact` is true on any. Collective.
  bool agree_on_any(bool fact) const { return !first_of(fact ? "true" : "").empty(); }
  /// Returns the text of the process that reports, on all processes. Collective.
  std::string share_of_reporter(const std::string& text) const {
    return first_of(reports() ? text : "");
  }

 private:
  std::string first_of(const std::string& text) const;
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
