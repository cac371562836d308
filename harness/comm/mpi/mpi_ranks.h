// SPDX-License-Identifier: Apache-2.0
// Ranks as processes of one MPI job: the same contract as ranks that are threads, and the same
// bits. In a build without MPI all functions throw unsupported.
//
// A process has one session, from start to end. The body of a run has a thread of its own, so that
// a process whose rank hangs can still report it; one thread at a time calls MPI
// (MPI_THREAD_SERIALIZED). Payloads go through the transport's own memory: user buffers are never
// given to MPI, so that a rank that is woken may free them at once. Memory that MPI holds of a call
// that was given up is leaked on purpose. Such a job can go on, with new communicators, but it
// cannot be finalized: `finish` then ends it with MPI_Abort.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/comm/communicator.h"
#include "harness/comm/faults/rank_outcome.h"
#include "harness/core/process/process_cores.h"

namespace lossgrid {

/// Returns true if this build has the transport.
bool mpi_is_compiled_in();

/// Bytes of a payload that a rank sends, and at most receives, in one exchange; longer ones go in
/// parts, so that no count exceeds an int and no second copy of a large tensor is made.
inline constexpr std::size_t kMpiSegmentBytes = std::size_t{4} << 20;

struct MpiRuntime;

class MpiSession {
 public:
  /// Calls MPI_Init_thread. Throws unsupported without MPI, or if it allows calls of one thread
  /// only.
  MpiSession(int& argc, char**& argv, std::size_t segment_bytes = kMpiSegmentBytes);
  /// Ends the job by MPI_Abort with ExitCode::rank_crashed unless `finish` was called.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const;
  int size() const;
  /// Returns the processes on the machine of this one, itself among them, with the cores of each.
  const std::vector<ProcessCores>& processes_here() const { return processes_here_; }
  /// Returns "Open MPI v4.1.4, ..." and the like.
  std::string library() const;
  /// Returns the number of machines of the job.
  int machines() const { return machines_; }

  /// Ends MPI and returns the `exit_code` of rank 0 on all ranks. If a run has left calls behind or
  /// a rank hangs, it does not return: rank 0 ends the job by MPI_Abort(exit_code) on arrival here
  /// (so it reports first), the others wait for that, up to a minute. Afterwards the process can
  /// only return from main.
  int finish(int exit_code);

  const std::shared_ptr<MpiRuntime>& runtime() const { return runtime_; }  // for the transport

 private:
  void find_processes();

  std::vector<ProcessCores> processes_here_;
  int machines_ = 1;
  std::shared_ptr<MpiRuntime> runtime_;  // threads that are left behind keep it alive
};

/// Runs `body(world)` on the first `ranks` processes of the session, with a communicator "world" of
/// that size. All processes of the session call it with the same `ranks` and get the same outcome,
/// that of rank 0; the others sleep meanwhile. The run begins at the arrival of the last process.
/// `deadline` and `grace` are as for run_thread_ranks, counted by each process from the beginning:
/// if a rank hangs, its thread is left behind, and every process is to report and to end by
/// MpiSession::finish or std::_Exit. A process that stays silent until `grace`, but no less than a
/// second, after that is taken as hung too. A deadlock between groups is not detected, it ends by
/// the deadline. Throws bad_input on all processes if `ranks` is less than 1, more than the session
/// has, or not the same everywhere.
RanksOutcome run_mpi_ranks(MpiSession& session, int ranks,
                           std::function<void(Communicator& world)> body,
                           std::chrono::milliseconds deadline,
                           std::chrono::milliseconds grace = std::chrono::milliseconds(1000));

}  // namespace lossgrid
