// SPDX-License-Identifier: Apache-2.0
// `RowHome`: the ranks and the microbatch of a row of the whole batch.
#pragma once

#include <cstdint>

namespace lossgrid {

/// Place of a row in its trial.
struct RowHome {
  int dp = 0;
  int microbatch = 0;
  int cp = 0;
  bool is_first = false;   // first row of its rank in the microbatch
  std::int64_t next = -1;  // row at the next place of the rank; -1: padding
};

}  // namespace lossgrid
