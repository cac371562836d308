// SPDX-License-Identifier: Apache-2.0
// `SliceParts`: the gradient of a weight that ranks over DP and CP hold in slices, compared with
// the parts of the true gradient that come from the rows of each rank. A slice that contains the
// part of some rows only was taken before the gradient was reduced over the ranks of the other
// rows.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/problem/batch/problem.h"
#include "harness/problem/batch/sharding.h"
#include "harness/verify/diagnosis/replica_sentences.h"
#include "harness/verify/truth/truth.h"

namespace lossgrid {

struct SliceParts {
  int dp = 1;
  int cp = 1;
  // Sums over the elements of each rank's slice, dp rank by dp rank. A part comes from the rows of
  // one rank, one dp rank, or one cp rank, by kReducedAxes [axes x ranks].
  std::vector<double> part_squared;
  std::vector<double> got_part;
  std::vector<double> got_squared;  // [ranks]

  std::size_t ranks() const { return got_squared.size(); }
  /// Adds the sums over another shard.
  void add(const SliceParts& other);
};

/// Returns the sums for a gradient `got` [ids, H] of the ids of `shard`; nullopt for batches that
/// would take too long. Ranks are numbered dp rank by dp rank: `holder` has the number of a rank
/// that holds the element, or -1; `rank_of_row` [T] has the rank of each row.
std::optional<SliceParts> slice_parts(const Problem& problem, const Truth& truth,
                                      const VocabShard& shard, std::span<const double> got,
                                      std::span<const int> holder, std::span<const int> rank_of_row,
                                      int dp, int cp);

/// Returns "each rank's slice of grad_weight is that of the rows of its own dp rank: ..." if every
/// slice is such a part times the same factor, or times 1 / `token_shares`, the rank's share of the
/// valid tokens; else nullopt.
std::optional<std::string> slice_sentence(const SliceParts& parts,
                                          std::span<const double> token_shares);

}  // namespace lossgrid
