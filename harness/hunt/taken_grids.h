// SPDX-License-Identifier: Apache-2.0
// taken_grids: the grids of a drawn case that loaded functions take, known without a trial.
#pragma once

#include <string>
#include <vector>

#include "harness/comm/process_grid.h"
#include "harness/problem/case/case_spec.h"

namespace lossgrid {

/// Returns the grids on which the implementation, as on the command line, takes the case: of a
/// loaded function by its declaration and by its own answer about lengths and sizes; all grids of
/// another one.
std::vector<Grid> taken_grids(const std::string& implementation, const CaseSpec& spec,
                              const std::vector<Grid>& grids);

}  // namespace lossgrid
