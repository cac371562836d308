// SPDX-License-Identifier: Apache-2.0
#include "harness/hunt/taken_grids.h"

#include <algorithm>
#include <iterator>

#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "harness/planner/plan/pack_layout.h"

namespace lossgrid {
namespace {

/// Lays out lengths alone, which is cheap beside a problem with its numbers.
bool takes_on(const LossImplementation& implementation, const CaseSpec& spec, const Grid& grid) {
  try {
    for (const int size : grid.cp_sizes()) {
      const PackLayout layout(spec, grid.with_cp(size), implementation.describe().padding);
      if (layout.misfit() || implementation.unsupported(layout.problem())) return false;
    }
  } catch (const Error&) {
    // The trial reports it.
  }
  return true;
}

}  // namespace

std::vector<Grid> taken_grids(const std::string& implementation, const CaseSpec& spec,
                              const std::vector<Grid>& grids) {
  const auto made = make_implementation(implementation);
  if (!made->describe().is_external) return grids;
  std::vector<Grid> taken;
  std::copy_if(grids.begin(), grids.end(), std::back_inserter(taken),
               [&](const Grid& grid) { return takes_on(*made, spec, grid); });
  return taken;
}

}  // namespace lossgrid
