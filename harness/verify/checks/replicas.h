// SPDX-License-Identifier: Apache-2.0
// `ReplicaFindings`: comparison of the copies of one shard of a weight's gradient on the ranks over
// DP and CP, after a train step that has reduced the gradient itself. Every element has holders:
// all of these ranks where the gradient is replicated, some of them where it is left in slices
// (ZeRO, FSDP). Holders of an element must have the same bits. If gradients differ, inner products
// of the ranks' gradients and the truth show the mistake, whatever their size.
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
  // truth, which is last. An element that a rank does not hold counts as 0.
  std::vector<double> products;
  std::int64_t different = 0;   // elements with different bits on two holders
  std::string first_different;  // first such element and its values
  std::int64_t without = 0;     // elements without a holder
  std::int64_t uneven = 0;      // elements whose number of holders differs from the first element's
  std::int64_t holders = -1;    // number of holders of the first element; -1 without elements
  std::string first_misplaced;  // first element counted in `without` or `uneven`

  ReplicaFindings() = default;
  ReplicaFindings(int dp_size, int cp_size);

  std::size_t ranks() const { return static_cast<std::size_t>(dp) * static_cast<std::size_t>(cp); }

  /// Adds an element. `held` is 1 for ranks that hold it, else 0. `got` has its values in memory by
  /// rank; `before` is subtracted for the inner products. Returns the mean of the holders' values,
  /// 0 without a holder.
  double add(std::span<const double> got, std::span<const std::uint8_t> held, double before,
             double want, const ElementPlace& place, std::int64_t coordinate);
  /// Adds the findings about another shard.
  void add(const ReplicaFindings& other);
};

/// Returns the name of a rank, numbered dp rank by dp rank: "dp rank 1", "cp rank 1" or "dp rank 1,
/// cp rank 0".
std::string replica_name(int dp, int cp, std::size_t rank);

/// Inner products of numbers that should be the same on every rank over DP and CP: a gradient
/// (ReplicaFindings::products) or a loss.
struct ReplicaProducts {
  int dp = 1;
  int cp = 1;
  std::vector<double> of;

  /// Makes the products of one number per rank, dp rank by dp rank, and its truth.
  static ReplicaProducts of_numbers(int dp, int cp, std::span<const double> values, double want);
};

}  // namespace lossgrid
