// SPDX-License-Identifier: Apache-2.0
// Ratios of peak memory: implementations that compute logits from hidden states beside
// linear_materialized, which computes all of them at once, measured and predicted, on the same case
// and grid.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reports/record/record.h"

namespace lossgrid {

/// Peaks of one trial without inputs, the largest over ranks and phases.
struct MemoryRatioRow {
  std::string case_title;
  std::string grid;
  std::string implementation;  // with its options
  std::int64_t measured_bytes = 0;
  std::int64_t predicted_bytes = 0;
  double measured_ratio = 0;  // to linear_materialized
  double predicted_ratio = 0;
  // By the driver of a GPU, the largest over ranks and phases (record.h).
  std::optional<std::int64_t> device_used_bytes = {};
  std::optional<std::int64_t> device_other_bytes = {};
};

/// Returns rows in the order of the run, linear_materialized included; none where it did not run.
std::vector<MemoryRatioRow> peak_memory_ratios(const RunRecord& run);

}  // namespace lossgrid
