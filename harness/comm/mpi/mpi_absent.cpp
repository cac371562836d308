// SPDX-License-Identifier: Apache-2.0
// The MPI transport of a build without MPI: a session cannot be made, so nothing else is ever
// called.
#include "harness/comm/mpi/mpi_ranks.h"
#include "harness/core/error.h"

namespace lossgrid {
namespace {

[[noreturn]] void refuse() {
  throw Error(ErrorCode::unsupported, "this build has no MPI (cmake -DLOSSGRID_MPI=ON)");
}

}  // namespace

struct MpiRuntime {};

bool mpi_is_compiled_in() {
  return false;
}

MpiSession::MpiSession(int&, char**&, std::size_t) {
  refuse();
}

MpiSession::~MpiSession() = default;

int MpiSession::rank() const {
  refuse();
}

int MpiSession::size() const {
  refuse();
}

std::string MpiSession::library() const {
  refuse();
}

int MpiSession::finish(int) {
  refuse();
}

RanksOutcome run_mpi_ranks(MpiSession&, int, std::function<void(Communicator&)>,
                           std::chrono::milliseconds, std::chrono::milliseconds) {
  refuse();
}

}  // namespace lossgrid
