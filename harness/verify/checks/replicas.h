// SPDX-License-Identifier: Apache-2.0
// `ReplicaFindings`: comparison of what the ranks over DP and CP hold of one shard of a weight's
// gradient after a train step that has added it up itself. Every element has holders: all of these
// ranks where the gradient is replicated, some of them where it is left in slices (ZeRO, FSDP).
// Holders of an element must have the same bits. Inner products of the ranks' gradients and the
// truth show the mistake of gradients that differ, whatever their size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/verify/checks/check.h"

namespace lossgrid {

struct ReplicaFindings {
  int dp = 1;
  int cp = 1;
  // [(dp cp + 1)^2] inner products of the gradients of the ranks, dp rank by dp rank, and of the
  // truth, which stands last. An element that a rank does not hold counts as 0.
  std::vector<double> products;
  std::int64_t different = 0;   // elements of which two holders have other bits
  std::string first_different;  // the first of these and its values
  std::int64_t without = 0;     // elements without a holder
  std::int64_t uneven = 0;      // elements that have another number of holders than the first one
  std::int64_t holders = -1;    // ranks that hold the first element; -1: there is none
  std::string first_misplaced;  // the first element without a holder, or with another number

  ReplicaFindings() = default;
  ReplicaFindings(int dp_size, int cp_size);

  std::size_t ranks() const { return static_cast<std::size_t>(dp) * static_cast<std::size_t>(cp); }

  /// Adds an element. `held`: 1 for the ranks that hold it, 0 for others. `got`: its values in
  /// memory by rank; `before` is subtracted for the inner products. Returns the mean of the
  /// holders' values, 0 without a holder.
  double add(std::span<const double> got, std::span<const std::uint8_t> held, double before,
             double want, const ElementPlace& place, std::int64_t coordinate);
  /// Adds the findings about another shard.
  void add(const ReplicaFindings& other);
};

/// Returns "dp rank 1", "cp rank 1" or "dp rank 1, cp rank 0" of the number of a rank, dp rank by
/// dp rank.
std::string replica_name(int dp, int cp, std::size_t rank);

/// Numbers that every rank over DP and CP should have alike, as inner products: those of a gradient
/// (ReplicaFindings::products), or of a loss.
struct ReplicaProducts {
  int dp = 1;
  int cp = 1;
  std::vector<double> of;

  /// Makes the products of numbers by rank, dp rank by dp rank, and of their truth.
  static ReplicaProducts of_numbers(int dp, int cp, std::span<const double> values, double want);
};

}  // namespace lossgrid
