// SPDX-License-Identifier: Apache-2.0
// Unjudged outputs: values that a loaded function returned and a run compared with the truth in
// part only.
#pragma once

#include <string>
#include <vector>

#include "reports/record/record.h"

namespace lossgrid {

/// States of an output in TrialRecord::unjudged.
inline constexpr const char* kValueAlone = "value checked, gradient not";
inline constexpr const char* kNotChecked = "neither value nor gradient checked";

/// An output that no trial of the run compared together with its gradient.
struct UnjudgedRow {
  std::string implementation;  // with its options
  std::string output;          // "entropy"
  std::string state;           // the best one of its trials
};

/// Returns the rows in the order of the run. Trials that did not reach their checks count for
/// nothing.
std::vector<UnjudgedRow> unjudged_outputs(const RunRecord& run);

}  // namespace lossgrid
