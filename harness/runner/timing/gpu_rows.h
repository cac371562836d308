// SPDX-License-Identifier: Apache-2.0
// States of the GPUs of a timing: read once a round, and summed up for its record.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "harness/device/gpu_state.h"
#include "reports/record/gpu_row.h"

namespace lossgrid {

/// Reads the state of a rank's GPU round by round.
class GpuLog {
 public:
  /// `uuid`: of the GPU, as BackendTraits::gpu_uuid returns it; "" without one.
  explicit GpuLog(const std::string& uuid);

  /// Reads the state at the beginning of a round.
  void begin_round();
  GpuStates take() { return std::move(states_); }

 private:
  std::optional<GpuMonitor> monitor_;
  GpuStates states_;
};

/// Returns the row of a rank; nullopt without a GPU. `warm_up_rounds`: the first ones, left out.
std::optional<GpuRow> gpu_row(std::int64_t rank, const GpuStates& states,
                              std::int64_t warm_up_rounds);

}  // namespace lossgrid
