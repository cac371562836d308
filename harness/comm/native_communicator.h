// SPDX-License-Identifier: Apache-2.0
// `NativeCommunicator`: the object of a library behind a communicator, for code that calls the
// library itself. Such calls are seen by no decorator.
#pragma once

#include "harness/comm/communicator.h"

namespace lossgrid {

struct NativeCommunicator {
  const char* kind = "threads";  // "threads", "mpi", "nccl"
  const void* handle = nullptr;  // an MPI_Comm* or an ncclComm_t; null: there is none
};

/// A communicator that has such an object, or may hide one.
class HasNative {
 public:
  virtual ~HasNative() = default;
  /// Returns the object, valid as long as the communicator.
  virtual NativeCommunicator native() const = 0;
};

inline NativeCommunicator native_of(const Communicator& communicator) {
  const auto* has = dynamic_cast<const HasNative*>(&communicator);
  return has != nullptr ? has->native() : NativeCommunicator();
}

}  // namespace lossgrid
