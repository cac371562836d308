// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/rank/row_homes.h"

#include <cstddef>

#include "harness/verify/checks/row_places.h"

namespace lossgrid {

std::vector<RowHome> row_homes(const TrialSetup& setup) {
  std::vector<RowHome> homes(static_cast<std::size_t>(setup.problem->tokens()));
  for (std::size_t m = 0; m < setup.microbatches.size(); ++m) {
    const TrialMicrobatch& microbatch = setup.microbatches[m];
    const Grid& grid = microbatch.grid;
    for (std::size_t d = 0; d < microbatch.parts.size(); ++d) {
      const Problem& part = *microbatch.parts[d].problem;
      if (part.microbatch.dummy || part.tokens() == 0) continue;
      const std::vector<std::int64_t> cu_padded = pack(part, grid).cu_seqlens_padded;
      for (int cp = 0; cp < grid.cp; ++cp) {
        const auto places = place_rows(part, cu_padded, cp_rows(cu_padded, grid, cp));
        for (std::size_t k = 0; k < places.size(); ++k) {
          if (places[k].row < 0) continue;
          const std::int64_t next = places[(k + 1) % places.size()].row;
          homes[static_cast<std::size_t>(part.whole_row(places[k].row))] = {
              static_cast<int>(d), static_cast<int>(m), cp, k == 0,
              next < 0 ? -1 : part.whole_row(next)};
        }
      }
    }
  }
  return homes;
}

}  // namespace lossgrid
