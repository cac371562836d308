// SPDX-License-Identifier: Apache-2.0
// Which rank holds which shard: rank = cp_rank * tp + tp_rank, and the communicators of a rank's
// row and column of the grid.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "harness/comm/communicator.h"

namespace lossgrid {

struct Grid {
  int tp = 1;  // ranks that share the vocabulary
  int cp = 1;  // ranks that share the sequences

  int ranks() const { return tp * cp; }
  int rank_of(int tp_rank, int cp_rank) const { return cp_rank * tp + tp_rank; }
  int tp_rank(int rank) const { return rank % tp; }
  int cp_rank(int rank) const { return rank / tp; }
  friend bool operator==(const Grid&, const Grid&) = default;
};

/// "tp2cp4"
std::string format_grid(const Grid& grid);

/// Reads "tp2cp4" (either axis may be missing, any order). Throws bad_input; axes are in [1, 4096].
Grid parse_grid(std::string_view text);

/// The communicators of one rank. `world` has exactly grid.ranks() ranks and outlives the object.
struct ProcessGrid {
  Grid grid;
  Communicator* world = nullptr;
  std::unique_ptr<Communicator> tp;  // the ranks with this cp_rank, ordered by tp_rank
  std::unique_ptr<Communicator> cp;  // the ranks with this tp_rank, ordered by cp_rank

  int tp_rank() const { return grid.tp_rank(world->rank()); }
  int cp_rank() const { return grid.cp_rank(world->rank()); }
};

/// Collective over `world`.
ProcessGrid make_process_grid(Communicator& world, const Grid& grid);

}  // namespace lossgrid
