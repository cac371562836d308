// SPDX-License-Identifier: Apache-2.0
// Another size of a case on another grid, for the explanation of a failure: all that is counted has
// another number, and no two numbers, squares, products or quotients of them are equal, so that a
// factor has one cause.
#pragma once

#include <cstdint>

#include "harness/comm/process_grid.h"
#include "harness/problem/case/case_spec.h"

namespace lossgrid {

/// Returns a grid with other sizes wherever `grid` has more than one rank along an axis, no two of
/// them alike; `grid` itself where no such grid has at most `most_ranks` ranks. `microbatches`: of
/// the case on it.
Grid second_grid(const Grid& grid, int most_ranks);

/// Returns the case with other lengths, counts, temperature and logit scale, small enough for a
/// trial of a fraction of a second. Masked rows hold plausible numbers, so that a function that
/// reads them goes on. `number`: 0, 1, .. give different sizes. Throws bad_input where no case has
/// such sizes.
CaseSpec with_other_sizes(const CaseSpec& spec, const Grid& grid, int number);

}  // namespace lossgrid
