// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/job/run_options.h"

namespace lossgrid {

std::optional<Fault> fault_of(const RunOptions& options, std::int64_t number) {
  const std::int64_t struck = options.fault ? options.fault->trial : 0;
  return struck == 0 || struck == number ? options.fault : std::nullopt;
}

}  // namespace lossgrid
