// SPDX-License-Identifier: Apache-2.0
// MpiRuntime: the lock around all calls of MPI, and a communicator of all processes for the
// transport's own messages. Waits are polls with pauses, so that several processes can share a
// core, independent of MPI's blocking calls. Internal to the MPI transport, as all of this folder
// is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>

#include <mpi.h>

#include "harness/comm/thread/backoff.h"

namespace lossgrid {

/// Throws rank_failed with MPI's own text if `code`, the result of `call`, is an error.
void check_mpi(int code, std::string_view call);

struct MpiRuntime {
  std::mutex mutex;  // held around every call of MPI; guards all members here and in MpiWorld
  MPI_Comm control = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  std::size_t segment_bytes = 0;
  std::uint64_t runs = 0;
  bool lost = false;  // a call was given up or a rank hangs: MPI cannot be finalized
  bool finished = false;

  /// Waits for a request of the control communicator, asleep most of the time.
  void complete_idly(MPI_Request& request);
};

}  // namespace lossgrid
