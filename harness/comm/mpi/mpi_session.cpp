// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <thread>

#include "harness/comm/mpi/mpi_runtime.h"
#include "harness/comm/mpi_ranks.h"
#include "harness/core/error.h"

namespace lossgrid {

void check_mpi(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  const std::string_view said(text.data(), static_cast<std::size_t>(length));
  throw Error(ErrorCode::rank_failed, fmt::format("{}: {}", call, said));
}

void Backoff::pause() {
  if (spins_ > 0) {
    --spins_;
  } else if (yields_ > 0) {
    --yields_;
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(sleep_);
    sleep_ = std::min(2 * sleep_, longest_);
  }
}

void MpiRuntime::complete_idly(MPI_Request& request) {
  for (Backoff backoff = Backoff::idle();; backoff.pause()) {
    const std::lock_guard lock(mutex);
    int done = 0;
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done != 0) return;
  }
}

bool mpi_is_compiled_in() {
  return true;
}

MpiSession::MpiSession(int& argc, char**& argv, std::size_t segment_bytes)
    : runtime_(std::make_shared<MpiRuntime>()) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  if (provided < MPI_THREAD_SERIALIZED) {
    MPI_Finalize();
    throw Error(ErrorCode::unsupported, "this MPI takes calls of one thread only");
  }
  MPI_Comm_dup(MPI_COMM_WORLD, &runtime_->control);
  MPI_Comm_set_errhandler(runtime_->control, MPI_ERRORS_RETURN);  // what is split off inherits it
  MPI_Comm_rank(runtime_->control, &runtime_->rank);
  MPI_Comm_size(runtime_->control, &runtime_->size);
  runtime_->segment_bytes = segment_bytes;
}

MpiSession::~MpiSession() {
  if (runtime_->finished) return;
  std::fflush(nullptr);
  MPI_Abort(MPI_COMM_WORLD, static_cast<int>(ExitCode::rank_crashed));
}

int MpiSession::rank() const {
  return runtime_->rank;
}

int MpiSession::size() const {
  return runtime_->size;
}

int MpiSession::finish(int exit_code) {
  constexpr std::chrono::seconds kPatience{60};
  MpiRuntime& runtime = *runtime_;
  std::fflush(nullptr);
  if (runtime.lost) {
    if (runtime.rank != 0) std::this_thread::sleep_for(kPatience);
    MPI_Abort(MPI_COMM_WORLD, exit_code);
  }
  // Processes that come early wait here, and not in MPI_Finalize, which may spin.
  MPI_Request request = MPI_REQUEST_NULL;
  {
    const std::lock_guard lock(runtime.mutex);
    check_mpi(MPI_Ibcast(&exit_code, 1, MPI_INT, 0, runtime.control, &request), "MPI_Ibcast");
  }
  runtime.complete_idly(request);
  {
    const std::lock_guard lock(runtime.mutex);
    check_mpi(MPI_Ibarrier(runtime.control, &request), "MPI_Ibarrier");
  }
  runtime.complete_idly(request);
  runtime.finished = true;
  MPI_Comm_free(&runtime.control);
  MPI_Finalize();
  return exit_code;
}

}  // namespace lossgrid
