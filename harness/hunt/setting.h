// SPDX-License-Identifier: Apache-2.0
// `Setting`: one choice of a case or grid that is not the default: an option of the objective, a
// key of the case, an axis of the grid.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/comm/process_grid.h"
#include "harness/problem/case/case_spec.h"

namespace lossgrid {

/// In the order of kSettingKinds (reports/record/hunt_record.h).
enum class SettingKind { objective, option, key, regime, dtype, layout };

/// "objective", "option", "key", "values", "dtype", "grid": rows of the table of coverage.
const char* name(SettingKind kind);

struct Setting {
  SettingKind kind = SettingKind::key;
  std::string key;    // "objective.loss_type", "temperature", "cp"
  std::string label;  // key, with the value where that is a name: "objective.loss_type=ipo"
  // True if it changes no number of the truth, but where numbers stand or who computes them.
  bool keeps_numbers = false;
};

/// Returns the settings of a case on a grid. Lengths, masks by bits, sizes and the seed are none.
std::vector<Setting> settings_of(const CaseSpec& spec, const Grid& grid);

/// Returns the case with a setting back at its default. Throws for a setting of a grid.
CaseSpec without(const CaseSpec& spec, const Setting& setting);

/// Returns a hash of the truth of a case: loss, metrics, gradients, and numbers of rows. Equal
/// where nothing that a trial compares differs. Throws bad_input for a case that cannot be.
std::uint64_t hash_of_truth(const CaseSpec& spec);

/// Returns the settings that decide something in this case: the truth differs without them, or the
/// case cannot be without them, or they keep numbers.
std::vector<Setting> deciding_settings(const CaseSpec& spec, const std::vector<Setting>& settings);

}  // namespace lossgrid
