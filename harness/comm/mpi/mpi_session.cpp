// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harness/comm/mpi/mpi_ranks.h"
#include "harness/comm/mpi/mpi_runtime.h"
#include "harness/core/error.h"

namespace lossgrid {

void check_mpi(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  const std::string_view reason(text.data(), static_cast<std::size_t>(length));
  throw Error(ErrorCode::rank_failed, fmt::format("{}: {}", call, reason));
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
  MPI_Comm_set_errhandler(runtime_->control, MPI_ERRORS_RETURN);  // inherited by splits
  MPI_Comm_rank(runtime_->control, &runtime_->rank);
  MPI_Comm_size(runtime_->control, &runtime_->size);
  runtime_->segment_bytes = segment_bytes;
  find_processes();
}

void MpiSession::find_processes() {
  MPI_Comm here = MPI_COMM_NULL;
  check_mpi(
      MPI_Comm_split_type(runtime_->control, MPI_COMM_TYPE_SHARED, rank(), MPI_INFO_NULL, &here),
      "MPI_Comm_split_type");
  int size = 1;
  int place = 0;
  MPI_Comm_size(here, &size);
  MPI_Comm_rank(here, &place);
  // Rank and cores of each process as one row of numbers, padded to the longest.
  const std::vector<int> cores = own_cores();
  auto length = static_cast<int>(cores.size()) + 1;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &length, 1, MPI_INT, MPI_MAX, here), "MPI_Allreduce");
  std::vector<int> own(static_cast<std::size_t>(length), -1);
  own[0] = rank();
  std::copy(cores.begin(), cores.end(), own.begin() + 1);
  std::vector<int> all(own.size() * static_cast<std::size_t>(size));
  check_mpi(MPI_Allgather(own.data(), length, MPI_INT, all.data(), length, MPI_INT, here),
            "MPI_Allgather");
  for (auto row = all.begin(); row != all.end(); row += length) {
    ProcessCores process{*row, {}};
    std::copy_if(row + 1, row + length, std::back_inserter(process.cores),
                 [](int core) { return core >= 0; });
    processes_here_.push_back(std::move(process));
  }
  machines_ = place == 0 ? 1 : 0;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &machines_, 1, MPI_INT, MPI_SUM, runtime_->control),
            "MPI_Allreduce");
  MPI_Comm_free(&here);
}

std::string MpiSession::library() const {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string all(text.data(), static_cast<std::size_t>(length));
  return all.substr(0, all.find_first_of(",\n"));
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
  // Early processes wait here, not in MPI_Finalize, which may spin.
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
