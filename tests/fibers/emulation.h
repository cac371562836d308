// SPDX-License-Identifier: Apache-2.0
// The way in which emulated GPUs of this process run kernels: threads of a block one after the
// other, or as fibers. Set between trials.
#pragma once

#include <optional>

#include "fibers/fiber_block.h"

namespace lossgrid {

/// Returns the order of fibers; nullopt: no fibers.
inline std::optional<FiberOrder>& fiber_order() {
  static std::optional<FiberOrder> order;
  return order;
}

/// Returns the number of launches that .cu files have named.
inline int& emulation_launches() {
  static int launches = 0;
  return launches;
}

}  // namespace lossgrid
