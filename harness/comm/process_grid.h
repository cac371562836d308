// SPDX-License-Identifier: Apache-2.0
// Grid: the shape of the ranks of a trial, and the place of a rank in it. ProcessGrid: the
// communicators of a rank along each axis. rank = ((pp_rank * dp + dp_rank) * cp + cp_rank) * tp +
// tp_rank, the order of Megatron-LM (tp-cp-dp-pp).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/comm/communicator.h"
#include "harness/comm/cp_layout.h"

namespace lossgrid {

struct Grid {
  int tp = 1;  // ranks that share the vocabulary
  int cp = 1;  // ranks that share the sequences
  int dp = 1;  // groups of tp * cp ranks with different sequences
  // Sequence parallelism: hidden states are split by rows over the tp ranks (Korthikanti et al.,
  // "Reducing activation recomputation in large transformer models", 2022).
  bool sp = false;
  // Stages of a pipeline, tp * cp * dp ranks each. The last one has the logits and the loss, the
  // others take part in its schedule.
  int pp = 1;
  CpLayout cp_layout = CpLayout::zigzag;

  int ranks() const { return stage_ranks() * pp; }
  int stage_ranks() const { return tp * cp * dp; }
  int rank_of(int tp_rank, int cp_rank, int dp_rank = 0, int pp_rank = 0) const {
    return ((pp_rank * dp + dp_rank) * cp + cp_rank) * tp + tp_rank;
  }
  int tp_rank(int rank) const { return rank % tp; }
  int cp_rank(int rank) const { return rank / tp % cp; }
  int dp_rank(int rank) const { return rank / (tp * cp) % dp; }
  int pp_rank(int rank) const { return rank / stage_ranks(); }
  bool is_last_stage(int rank) const { return pp_rank(rank) == pp - 1; }
  /// Returns the first rank that has a part of the loss.
  int first_of_last_stage() const { return rank_of(0, 0, 0, pp - 1); }
  /// Returns the number of ranks, beside cp, that hidden states are split over.
  int row_parts() const { return sp ? tp : 1; }

  bool is_dynamic() const { return cp_layout == CpLayout::dynamic; }
  /// Returns the ranks of a stage that have the same columns: all that a pack may be split over.
  int line() const { return cp * dp; }
  /// Returns a static grid of the same ranks with groups of `size` neighbours over CP, which
  /// divides line(): that of the packs of one microbatch of a dynamic grid.
  Grid with_cp(int size) const;
  /// Returns the CP sizes that packs may have, ascending: every divisor of line() on a dynamic
  /// grid, else cp.
  std::vector<int> cp_sizes() const;
  friend bool operator==(const Grid&, const Grid&) = default;
};

/// Returns "tp2cp4", with "dp2" appended for dp > 1, "pp2" for pp > 1, "sp" for sequence
/// parallelism, and a layout other than zigzag as ":contiguous".
std::string format_grid(const Grid& grid);

/// Reads "tp2cp4dp2pp2sp" (axes may be missing, any order), and a layout behind a ':'. Throws
/// bad_input; axes are in [1, 4096] and the grid has fewer than 2^31 ranks.
Grid parse_grid(std::string_view text);

/// Communicators of one rank. `world` has exactly grid.ranks() ranks and outlives the object.
struct ProcessGrid {
  Grid grid;
  Communicator* world = nullptr;
  // The ranks that differ from this one in a single axis, ordered by their rank on it.
  std::unique_ptr<Communicator> tp;
  std::unique_ptr<Communicator> cp;
  std::unique_ptr<Communicator> dp;
  std::unique_ptr<Communicator> pp;

  int tp_rank() const { return grid.tp_rank(world->rank()); }
  int cp_rank() const { return grid.cp_rank(world->rank()); }
  int dp_rank() const { return grid.dp_rank(world->rank()); }
  int pp_rank() const { return grid.pp_rank(world->rank()); }
  bool is_last_stage() const { return grid.is_last_stage(world->rank()); }
};

/// Returns the group of the rank over CP. Collective over `world`, which has grid.ranks() ranks.
std::unique_ptr<Communicator> split_cp(Communicator& world, const Grid& grid);

/// Splits `world` along each axis. Collective.
ProcessGrid make_process_grid(Communicator& world, const Grid& grid);

}  // namespace lossgrid
